// Cuts of the forward part through small frontiers, for graphs without bottlenecks.
#pragma once

#include "passes/rewrite/problem.h"

namespace isthmus {

// A cut between two forward nodes has a frontier: the storages made before and read by forward
// nodes after. Keeping all of every cut's frontier makes the pieces between cuts recomputable one
// at a time, whatever skips over them. Gives one set of values to keep for each number of pieces
// tried (2, 3, ... about 3 sqrt(N), of large numbers some); cuts are where the frontier is least
// near even shares of the bytes. `roots` as storageRoots gives them.
std::vector<std::vector<ValueId>> frontierCuts(const Graph &g, llvm::ArrayRef<ValueId> roots);

} // namespace isthmus
