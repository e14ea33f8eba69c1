// A snapshot of PyTorch's allocator in a page.
#pragma once

#include "tools/view/page.h"

namespace isthmus {

// Adds the snapshot in `data` as the next step of the page. Errors name `name`.
llvm::Error addSnapshot(Page &page, const std::string &name, llvm::StringRef data);

} // namespace isthmus
