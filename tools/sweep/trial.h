// One plan of a sweep, tried.
#pragma once

#include "tools/sweep/row.h"
#include "tools/sweep/subject.h"

namespace isthmus {

// Compiles the subject's graph in a mode and fills the row. A budget that cannot be met makes a row
// without a plan, and so does a device that fails: then nothing comes back. Other errors end the
// sweep, an interrupt among them. With `measures`, inverses are held against what they rebuild, as
// compiledWithin does it; else nothing runs.
llvm::Expected<std::optional<Compiled>> tryPlan(SweepSubject &subject, const SweepMode &mode,
                                                Device &device, bool measures, SweepRow &row);

// What to do with an error of a row: kept in the row, or given back where it ends the sweep.
llvm::Error keepInRow(llvm::Error e, SweepRow &row);

} // namespace isthmus
