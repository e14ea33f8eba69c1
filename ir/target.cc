#include "ir/target.h"

#include <algorithm>

namespace isthmus {

double Target::flopsPerSecondOf(const OpCall &call) const {
  if (!call.op->is(kContraction) || call.operands.empty())
    return flopsPerSecond;
  DType narrowest = call.operands[0].dtype; // a product may go on from a sum of wider floats
  for (const Type &t : call.operands)
    if (isFloat(t.dtype) && dtypeBytes(t.dtype) < dtypeBytes(narrowest))
      narrowest = t.dtype;
  double rate = contractionFlopsPerSecond[size_t(narrowest)];
  return rate > 0 ? rate : flopsPerSecond;
}

double Target::seconds(const OpCall &call) const {
  const double estimated = estimatedSeconds(call);
  if (!measured || estimated == 0)
    return estimated;
  auto it = measured->seconds.find(callKey(call));
  return it == measured->seconds.end() ? estimated * measured->perEstimate : it->second;
}

double Target::estimatedSeconds(const OpCall &call) const {
  if (call.op->is(kView) || call.op->is(kTransfer) || call.op->isMessage())
    return 0;
  Cost c = costOf(call);
  return launchSeconds + std::max(c.flops / flopsPerSecondOf(call), c.bytes / bytesPerSecond);
}

double Target::transferSeconds(int64_t bytes) const {
  return launchSeconds + double(bytes) / linkBytesPerSecond;
}

} // namespace isthmus
