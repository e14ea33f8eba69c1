// Text in aligned columns, for people.
#pragma once

#include <string>
#include <vector>

namespace isthmus {

// Columns are as wide as they need to be, two spaces apart.
class Table {
public:
  // `right`: which columns are aligned to the right, as numbers are.
  explicit Table(std::vector<bool> right) : right_(std::move(right)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  // A line for each row, with `indent` before it.
  std::string text(const std::string &indent = "  ") const;

private:
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

} // namespace isthmus
