// The problem as the bounds see it: what a run really cannot do without. Views are merged into the
// storages that they refer to. Unlike in StorageGraph, which says what is enough for a search, a
// reader of a view needs nothing of the view's other operands (they may be gone by then), and an op
// may run again although a view of it may not. Standard library only.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

struct Needs {
  struct Storage {
    int64_t bytes = 0;  // rounded
    uint32_t maker = 0; // the op here that makes it
    bool lives = false; // to the end
  };

  // Only ops that every schedule runs, numbered anew, in source order.
  struct Op {
    OpIndex source = 0; // of Problem::ops
    double cost = 0;
    int64_t workspace = 0;
    bool mayRepeat = true;
    std::vector<uint32_t> reads; // storages, each once
    uint32_t firstMade = 0, numMade = 0;
    struct Reuse {
      uint32_t made, read; // storages
    };
    std::vector<Reuse> mayReuse; // `made` is no larger than `read`
  };

  std::vector<Op> ops;
  std::vector<Storage> storages; // those of one op are neighbours

  explicit Needs(const Problem &p);
};

} // namespace isthmus::plan
