#include "passes/plan/bound.h"

#include "passes/plan/peak_bound.h"
#include "passes/plan/planner.h"

#include <algorithm>

namespace isthmus::plan {

int64_t lowestPeak(const Problem &p) {
  constexpr double kWork = 3e6; // a tenth of a unit of effort
  Needs needs(p);
  if (std::any_of(p.ops.begin(), p.ops.end(), [](const Op &op) { return op.isOptional; })) {
    int64_t outputs = 0;
    for (const Needs::Storage &s : needs.storages)
      outputs += s.lives ? s.bytes : 0;
    return outputs;
  }
  return leastPeak(needs, structuralPeak(needs),
                   static_cast<uint64_t>(defaultEffort(needs.ops.size()) * kWork));
}

} // namespace isthmus::plan
