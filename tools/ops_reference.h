// docs/ops.md, made from the op table.
#pragma once

#include <string>

namespace isthmus {

// The text of the page. Gradients and inverses are built for each row's examples, to list their
// ops.
std::string opsReference();

} // namespace isthmus
