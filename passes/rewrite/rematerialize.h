// The rewrite: makes a new graph of a graph and a schedule over its problem.
#pragma once

#include "passes/rewrite/problem.h"

namespace isthmus {

// `g` is an original (no clones), `p` its problem, `s` a valid schedule over it. The first step of
// an op becomes its node; every later step becomes a clone of phase Backward, which reads values of
// forward nodes through boundaries, one for each such value. Alternatives are emitted as their
// derivation says: the start or the wait of a transfer, an encoding, a node over an encoded
// operand, or an inverse. Readers read the newest instance; the loss stays the first instance.
// Clones that read no other clone, starts of prefetches, and inverses that read no rematerialized
// value get an `after` edge to the last backward node before them, so that a framework which
// reorders nodes does not start them early. If the schedule changes the order of nodes, each node
// records its position in `g`.
Graph rematerialize(const Graph &g, const GraphProblem &p, const plan::Schedule &s);

} // namespace isthmus
