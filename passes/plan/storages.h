// Who makes and who reads which storage: what the search and the bounds build on. Views are merged
// into the storages that they refer to, what is always there and what nothing needs is left out,
// sizes are rounded. Standard library only.
#pragma once

#include "passes/plan/problem.h"

namespace isthmus::plan {

// The ops that the outputs need, forward outputs included, by what they read.
std::vector<char> neededOps(const Problem &p);

struct Storages {
  struct Storage {
    int64_t bytes = 0;
    uint32_t maker = 0; // the op here that makes it
    bool lives = false; // to the end
  };

  // Numbered anew, in source order.
  struct Op {
    OpIndex source = 0; // of Problem::ops
    double cost = 0;
    int64_t workspace = 0;
    bool mayRepeat = true;
    bool isBackward = false;
    std::vector<uint32_t> reads; // storages, each once
    uint32_t firstMade = 0, numMade = 0;
    struct Reuse {
      uint32_t made, read; // storages
    };
    std::vector<Reuse> mayReuse; // `made` is no larger than `read`
  };

  std::vector<Op> ops;
  std::vector<Storage> storages; // those of one op are neighbours

protected:
  // A view may read more than its base, and may be one that must not run again. Either a reader of
  // it needs only its base, and its base's maker may run again all the same; or a reader needs all
  // that the view read, and nothing that it read is made again.
  enum class Views : uint8_t { NeedBase, NeedAll };
  Storages(const Problem &p, Views views);
};

} // namespace isthmus::plan
