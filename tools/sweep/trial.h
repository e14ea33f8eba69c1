// Tries one plan of a sweep.
#pragma once

#include "tools/sweep/row.h"
#include "tools/sweep/subject.h"

namespace isthmus {

// Compiles the subject's graph in a mode and fills the row. If the budget cannot be met or the
// device fails, the row has no plan and the result is none. Other errors, and interrupts, end the
// sweep. With `measures`, inverses are compared with the values that they rebuild;
// otherwise nothing runs.
llvm::Expected<std::optional<Compiled>> tryPlan(SweepSubject &subject, const SweepMode &mode,
                                                Device &device, bool measures, SweepRow &row);

// Keeps an error in the row, or returns it if it ends the sweep.
llvm::Error keepInRow(llvm::Error e, SweepRow &row);

} // namespace isthmus
