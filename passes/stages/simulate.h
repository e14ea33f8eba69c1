// The time of a step over several devices, by the costs of its nodes.
#pragma once

#include "ir/target.h"
#include "passes/stages/machine.h"
#include <vector>

namespace isthmus {

// What one device does in a step, in seconds from its beginning.
struct PlaceTimes {
  double busy = 0; // computing
  double end = 0;  // when its last node is done
};
struct StepTimes {
  std::vector<PlaceTimes> places;
  double seconds = 0;
  // The share of the devices' time in which they wait.
  double bubble() const;
};

// `g` has messages; each device runs its nodes in their order. A message takes the link from the
// moment at which it is sent, behind those before it on the same link; it is received once both
// ends have come to it.
StepTimes simulateStep(const Graph &g, const Target &t, const Machine &machine);

} // namespace isthmus
