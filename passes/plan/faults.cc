#include "passes/plan/faults.h"

#include "passes/plan/alternatives.h"
#include "passes/plan/overwrites.h"

namespace isthmus::plan {

// The check of overwrites expects valid alternatives.
std::optional<Fault> faultOf(const Problem &p) {
  const std::optional<Fault> fault = faultOfAlternatives(p);
  return fault ? fault : faultOfOverwrites(p);
}

} // namespace isthmus::plan
