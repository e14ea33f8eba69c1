// The batch statistics among a row's results, of which a training graph keeps running averages.
#pragma once

#include "ir/op_def.h"

namespace isthmus {

// In training, result `now` updates the running average that is operand `old`, by the row's
// attribute `momentum`. If the operand is a state input, a `running_average` node does the update.
struct AveragedStatistic {
  uint32_t old, now;
};
llvm::ArrayRef<AveragedStatistic> averagedStatistics(const OpDef &op); // empty for most rows

// Whether a node of the row normalizes by statistics of the batch, which may be those of each
// micro-batch.
inline bool takesBatchStatistics(const OpDef &op, const Attrs &attrs) {
  return !averagedStatistics(op).empty() && attrs.getBool("training");
}

} // namespace isthmus
