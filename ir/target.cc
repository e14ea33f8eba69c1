#include "ir/target.h"

#include <algorithm>

namespace isthmus {

double Target::seconds(const OpCall &call) const {
  if (call.op->is(kView))
    return 0;
  Cost c = costOf(call);
  return launchSeconds + std::max(c.flops / flopsPerSecond, c.bytes / bytesPerSecond);
}

} // namespace isthmus
