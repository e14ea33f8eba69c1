// Turns a list of tasks back into a schedule over the problem's ops.
#pragma once

#include "passes/plan/storages/storage_graph.h"

namespace isthmus::plan {

// Runs these tasks in this order, with the views that their readers need and with both the start
// and the wait of every transfer.
Schedule emitSchedule(const StorageGraph &g, const std::vector<TaskId> &tasks);

} // namespace isthmus::plan
