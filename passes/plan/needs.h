// The problem as the bounds see it: what a step really cannot do without. Unlike in StorageGraph,
// which says what is enough for a search, a reader of a view needs nothing of the view's other
// operands (they need not be live then), and an op may run again although a view of it may not.
// Standard library only.
#pragma once

#include "passes/plan/storages.h"

namespace isthmus::plan {

struct Needs : Storages {
  explicit Needs(const Problem &p) : Storages(p, Views::NeedBase) {}
};

} // namespace isthmus::plan
