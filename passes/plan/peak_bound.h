// The least peak of all orders and all amounts of recomputation, or something below it.
#pragma once

#include "passes/plan/needs.h"

namespace isthmus::plan {

// What is there while the op runs, at the least: its operands, results and workspace, less all
// results that might take over an operand's bytes.
int64_t workingSet(const Needs &needs, const Needs::Op &op);

// No schedule has a lower peak: the largest working set of one op, with what must be kept meanwhile
// because its maker may run only once; all outputs. A few passes over the graph.
int64_t structuralPeak(const Needs &needs);

// No schedule has a lower peak. At least `known`, which must be such a bound already. The unit of
// `work` is that of the planner's; when it is used up, what is proven by then is returned.
int64_t leastPeak(const Needs &needs, int64_t known, uint64_t work);

} // namespace isthmus::plan
