// A sweep's rows as text.
#pragma once

#include "tools/sweep/row.h"

namespace isthmus {

// The columns of the documented format, then more; unknown cells are empty.
std::string csvText(const SweepTable &t);

// The same for people, in cells; the first row has the headings. Columns without any value are left
// out.
std::vector<std::vector<std::string>> cellsOf(const SweepTable &t);
// Aligned, a line for each row.
std::string alignedText(const SweepTable &t);

} // namespace isthmus
