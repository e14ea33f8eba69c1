// docs/ops.md, made from the op table.
#pragma once

#include <string>

namespace isthmus {

// The page. What a gradient or an inverse is made of is found by making it, for a row's examples.
std::string opsReference();

} // namespace isthmus
