// Cuts of the forward part through small frontiers, for graphs without bottlenecks.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// A cut between two forward nodes has a frontier: the storages made before the cut and read by
// forward nodes after it. If the whole frontier of every cut is kept, the segments between cuts can
// be recomputed one at a time, whatever connections skip over them. Returns one set of values to
// keep for each number of segments tried: 2, 3, ... up to about 3 sqrt(N), with steps of a
// twentieth from 40 on. A cut lies where the frontier is smallest near an even share of the bytes.
// `roots`: storageRoots of the graph; `isForward`: its forwardPart.
std::vector<std::vector<ValueId>> frontierCuts(const Graph &g, llvm::ArrayRef<ValueId> roots,
                                               const std::vector<bool> &isForward);

} // namespace isthmus
