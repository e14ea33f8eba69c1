#include "passes/inspect/markup.h"

#include "llvm/Support/ConvertUTF.h"

namespace isthmus {

std::string markupText(llvm::StringRef text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    unsigned char c = static_cast<unsigned char>(text[i]);
    size_t length = llvm::getNumBytesForUTF8(c);
    const auto *at = reinterpret_cast<const llvm::UTF8 *>(text.data()) + i;
    if (c < 0x20 || c == 0x7f || i + length > text.size() ||
        !llvm::isLegalUTF8Sequence(at, at + length)) {
      out += '?';
      ++i;
      continue;
    }
    switch (c) {
    case '&':
      out += "&amp;";
      break;
    case '<':
      out += "&lt;";
      break;
    case '>':
      out += "&gt;";
      break;
    case '"':
      out += "&quot;";
      break;
    case '\\':
      out += "&#92;";
      break;
    default:
      out += text.substr(i, length);
    }
    i += length;
  }
  return out;
}

} // namespace isthmus
