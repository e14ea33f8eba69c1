// Names in pictures and pages.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>

namespace isthmus {

// For text and attributes of SVG and HTML, and for DOT's HTML-like labels and quoted strings. What
// is no UTF-8, or cannot be seen, becomes '?'.
std::string markupText(llvm::StringRef text);

} // namespace isthmus
