// Escapes names for pictures and pages.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <string>

namespace isthmus {

// Escapes text for SVG and HTML (text and attributes) and for DOT's HTML-like labels and quoted
// strings. Invalid UTF-8 and control characters become '?'.
std::string markupText(llvm::StringRef text);

} // namespace isthmus
