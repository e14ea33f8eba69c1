#include "ir/text/source.h"

#include "llvm/ADT/StringExtras.h"

namespace isthmus {

std::string Source::where(Loc loc) const {
  return fileName.str() + ":" + std::to_string(loc.line) + ":" + std::to_string(loc.column);
}

std::string Source::excerpt(llvm::StringRef part) const {
  constexpr size_t kBefore = 100, kAfter = 80;
  size_t at = part.begin() - text.begin();
  size_t from = at, to = at;
  while (from > 0 && text[from - 1] != '\n' && at - from < kBefore)
    --from;
  while (to < text.size() && text[to] != '\n' && to - at < kAfter)
    ++to;
  if (from == to && at == to && to == text.size())
    return ""; // after the last line
  bool cutBefore = from > 0 && text[from - 1] != '\n';
  bool cutAfter = to < text.size() && text[to] != '\n';

  std::string line = cutBefore ? "..." : "", marks = cutBefore ? "   " : "";
  size_t end = std::max(at + 1, std::min<size_t>(at + part.size(), to));
  for (size_t i = from; i < std::max(to, end); ++i) {
    char c = i < to ? text[i] : ' ';
    if (i < to)
      line += c == '\t' || c == '\r' || !llvm::isASCII(c) || llvm::isPrint(c) ? c : '?';
    // All bytes of a UTF-8 character are assumed to take one column.
    if ((uint8_t(c) & 0xc0) == 0x80 && i != at)
      continue;
    marks += i == at ? '^' : i > at && i < end ? '~' : c == '\t' ? '\t' : ' ';
  }
  llvm::StringRef whole = line;
  if (!cutAfter)
    whole = whole.rtrim("\r ");
  return whole.str() + (cutAfter ? "...\n" : "\n") + llvm::StringRef(marks).rtrim(" \t").str() +
         "\n";
}

} // namespace isthmus
