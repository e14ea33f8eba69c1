#include "tools/cli/table.h"

#include "llvm/ADT/StringRef.h"
#include <algorithm>

namespace isthmus {

std::string Table::text(const std::string &indent) const {
  std::vector<size_t> width(right_.size(), 0);
  for (const auto &cells : rows_)
    for (size_t i = 0; i < cells.size(); ++i)
      width[i] = std::max(width[i], cells[i].size());
  std::string out;
  for (const auto &cells : rows_) {
    std::string line = indent;
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string pad(width[i] - cells[i].size(), ' ');
      line += (i == 0 ? "" : "  ") + (right_[i] ? pad + cells[i] : cells[i] + pad);
    }
    out += llvm::StringRef(line).rtrim(' ').str() + "\n";
  }
  return out;
}

} // namespace isthmus
