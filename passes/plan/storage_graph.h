// The problem as the search sees it: a reader of a view needs all that the view read, and what is
// read by a view that must not run again is not made again. Standard library only.
#pragma once

#include "passes/plan/storages.h"

namespace isthmus::plan {

struct StorageGraph : Storages {
  explicit StorageGraph(const Problem &p) : Storages(p, Views::NeedAll), p_(p) {}

  // The runs of these ops in this order, with the views that their readers need.
  Schedule scheduleOf(const std::vector<uint32_t> &runs) const;

private:
  const Problem &p_;
};

} // namespace isthmus::plan
