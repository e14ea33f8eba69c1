// Cells in columns, for eyes.
#pragma once

#include <string>
#include <vector>

namespace isthmus {

// Columns are as wide as they need to be, two spaces apart.
class Table {
public:
  // Which columns go to the right: those of numbers.
  explicit Table(std::vector<bool> right) : right_(std::move(right)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // A line each, all with `indent` before it.
  std::string text(const std::string &indent = "  ") const;

private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace isthmus
