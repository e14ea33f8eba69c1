// The problem as the bounds see it: only the needs that a step has in every schedule. StorageGraph
// asks for more, which is safe for a search but not for a bound. Here a reader of a view does not
// need the view's other operands (they need not be live then), and an op may run again although a
// view of its result may not. Standard library only.
#pragma once

#include "passes/plan/storages/storages.h"

namespace isthmus::plan {

struct Needs : Storages {
  explicit Needs(const Problem &p) : Storages(p, Views::NeedBase) {}
};

} // namespace isthmus::plan
