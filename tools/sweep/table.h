// A sweep's rows as text.
#pragma once

#include "tools/sweep/row.h"

namespace isthmus {

// The contract's columns, then more; what is not known is empty.
std::string csvText(const SweepTable &t);

// The same for eyes, in cells; the first row has the headings. Columns of which nothing is known
// are left out.
std::vector<std::vector<std::string>> cellsOf(const SweepTable &t);
// Aligned, a line each.
std::string alignedText(const SweepTable &t);

} // namespace isthmus
