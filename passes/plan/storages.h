// Which task makes and which tasks read each storage: what the search and the bounds build on.
// Views are merged into the storages that they refer to, pinned storages and ops that no output
// needs are left out, sizes are rounded. Standard library only.
#pragma once

#include "passes/plan/ids.h"
#include "passes/plan/problem.h"

namespace isthmus::plan {

// The ops that the outputs need, forward outputs included, by what they read.
std::vector<char> neededOps(const Problem &p);

struct Storages {
  struct Storage {
    int64_t bytes = 0;
    TaskId maker = TaskId(0);
    bool lives = false;          // to the end
    bool hasOneInstance = false; // at most: a view of it may not run again
  };

  // An op of the problem that is no view.
  struct Task {
    OpIndex source = 0; // of Problem::ops
    double cost = 0;
    int64_t workspace = 0;
    bool mayRepeat = true;
    bool isBackward = false;
    std::vector<StorageId> reads; // each once
    StorageId firstMade = StorageId(0);
    uint32_t numMade = 0;
    struct Donation {
      StorageId made, read;
    };
    std::vector<Donation> donations; // `made` is no larger than `read`

    // A transfer is one task. An offload stands where its wait does and makes a storage of 0 bytes,
    // which stands for the host's memory; a prefetch stands where its start does. `source` is that
    // op.
    enum class Transfer : uint8_t { None, Offload, Prefetch };
    Transfer transfer = Transfer::None;
    double transferTime = 0;
    OpIndex otherEnd = 0; // of Problem::ops

    IdRange<StorageId> made() const { return {firstMade, firstMade + numMade}; }
  };

  IdVector<TaskId, Task> tasks;          // in source order; alternatives, if any, after all others
  IdVector<StorageId, Storage> storages; // those of one task are neighbours

protected:
  // A view may read more than its base, and it may be an op that must not run again. Either a
  // reader of the view needs only its base, and the task that makes the base may run again all the
  // same; or a reader needs all that the view reads, and nothing that it reads is rematerialized.
  enum class Views : uint8_t { NeedBase, NeedAll };
  Storages(const Problem &p, Views views);

  // The storage that a read refers to; none if it is pinned or not needed.
  StorageId storageOf(const Problem &p, const Read &r) const {
    return firstOf_[r.op] ? firstOf_[r.op] + (p.ops[r.op].isView() ? 0 : r.output) : StorageId();
  }
  // All that the op reads, each storage once.
  std::vector<StorageId> readsOf(const Problem &p, const Op &op) const;
  // Donations to its outputs, the first of which is `firstMade`.
  std::vector<Task::Donation> donationsOf(const Problem &p, const Op &op,
                                          StorageId firstMade) const;

  // The last call of `readsOf` that met each storage, and the number of calls.
  mutable IdVector<StorageId, uint32_t> metAt_;
  mutable uint32_t numCalls_ = 0;

  std::vector<char> needed_;                    // by Problem::ops
  std::vector<StorageId> firstOf_;              // by op: its first storage, or its view's
  std::vector<std::vector<StorageId>> touches_; // by view: what else a read of it needs
};

} // namespace isthmus::plan
