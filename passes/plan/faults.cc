#include "passes/plan/faults.h"

#include "passes/plan/alternatives.h"
#include "passes/plan/overwrites.h"

namespace isthmus::plan {

// The second takes alternatives as the first has found them.
std::optional<Fault> faultOf(const Problem &p) {
  const std::optional<Fault> fault = faultOfAlternatives(p);
  return fault ? fault : faultOfOverwrites(p);
}

} // namespace isthmus::plan
