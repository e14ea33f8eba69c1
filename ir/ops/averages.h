// Which results of a row are statistics of a batch, of which a training graph keeps averages.
#pragma once

#include "ir/op_def.h"

namespace isthmus {

// In training, result `now` moves the average that operand `old` gives, by the row's attribute
// `momentum`. Where the operand is a state input, that is a `running_average` node.
struct AveragedStatistic {
  uint32_t old, now;
};
llvm::ArrayRef<AveragedStatistic> averagedStatistics(const OpDef &op); // empty for most rows

} // namespace isthmus
