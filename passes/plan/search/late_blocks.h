// Blocks of tasks that run later, so that fewer bytes are live.
#pragma once

#include "passes/plan/storages/storage_graph.h"

namespace isthmus::plan {

// The same tasks, each of which stands there once, with blocks of those from `first` on moved to
// later places. A task that makes more bytes than it frees moves to just before its first reader,
// and the two are a block from then on. So is a block that makes more than it frees. (A sum of
// large gradients of one input, of which a small part each is not zero, waits so for the last of
// them.) The merging of such runs is that of Liu, An Application of Generalized Tree Pebbling to
// Sparse Matrix Factorization, 1987.
std::vector<TaskId> withLateBlocks(const StorageGraph &g, const std::vector<TaskId> &order,
                                   size_t first = 0);

} // namespace isthmus::plan
