// Recomputation while a device waits for a message.
#pragma once

#include "passes/stages/place_problem.h"

namespace isthmus {

// Moves steps that recompute from behind a wait for a message to just before it, unless they read
// what waits for it. They then take no time as far as the device would wait: torchgpipe recomputes
// so before the gradient of a stage arrives (Kim et al., 2020, section 3.2). No message starts
// later, because no step passes the start of one: what waits until another device has taken a
// message moves behind these steps in turn. At each wait the first steps move, as many as leave no
// more than `mostBytes` live where they pass.
plan::Schedule recomputedBeforeWaits(const Graph &g, const GraphProblem &p,
                                     const PlaceProblem &place, plan::Schedule s,
                                     int64_t mostBytes);

} // namespace isthmus
