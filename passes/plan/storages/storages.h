// The task that makes each storage and the tasks that read it: the basis of the search and the
// bounds. Views are merged into the storages that they refer to. Pinned storages and ops that no
// output needs are left out, and sizes are rounded up. Standard library only.
#pragma once

#include "passes/plan/problem.h"
#include "passes/plan/storages/ids.h"
#include "passes/plan/storages/small_vector.h"

namespace isthmus::plan {

// From this many tasks on, searches and bounds do less work at each place.
constexpr size_t kManyTasks = 5000;

// By op: whether the outputs, forward outputs included, need it.
std::vector<char> neededOps(const Problem &p);

struct Storages {
#ifdef __SANITIZE_ADDRESS__ // under it, GCC 12 misaligns larger ones on the stack (PR 110027)
  static constexpr size_t kTaskAlignment = alignof(int64_t);
#else
  static constexpr size_t kTaskAlignment = 64; // a cache line
#endif
  using Reads = SmallVector<StorageId, 4>; // most ops read no more
  struct Storage {
    int64_t bytes = 0;
    TaskId maker = TaskId(0);
    bool lives = false;          // whether it lives to the end
    bool hasOneInstance = false; // a view of it may not run again
  };

  // An op of the problem that is no view. What an edit of a schedule looks at is in the first cache
  // line.
  struct alignas(kTaskAlignment) Task {
    Reads reads; // each listed once
    double cost = 0;
    StorageId firstMade = StorageId(0);
    uint32_t numMade = 0;
    bool mayRepeat = true;
    bool isBackward = false;
    // A transfer is one task. An offload stands at the place of its wait and makes a storage of 0
    // bytes, which stands for the host's memory; a prefetch stands at the place of its start.
    // `source` is the op at that place.
    enum class Transfer : uint8_t { None, Offload, Prefetch };
    Transfer transfer = Transfer::None;
    int64_t workspace = 0;
    struct Donation {
      StorageId made, read;
    };
    using Donations = SmallVector<Donation, 1>;
    Donations donations; // `made` is no larger than `read`

    OpIndex source = 0; // of Problem::ops
    double transferTime = 0;
    OpIndex otherEnd = 0; // of Problem::ops

    IdRange<StorageId> made() const { return {firstMade, firstMade + numMade}; }
  };

  IdVector<TaskId, Task> tasks;          // in source order; alternatives, if any, come last
  IdVector<StorageId, Storage> storages; // results of one task are adjacent

protected:
  // A view may read more than its base, and it may be an op that must not run again. With NeedBase,
  // a reader of the view needs only its base, and the task that makes the base may run again. With
  // NeedAll, a reader needs all operands of the view, and the operands of a view that must not run
  // again are not rematerialized.
  enum class Views : uint8_t { NeedBase, NeedAll };
  Storages(const Problem &p, Views views);

  // The storage that a read refers to; none if it is pinned or not needed.
  StorageId storageOf(const Problem &p, const Read &r) const {
    return firstOf_[r.op] ? firstOf_[r.op] + (p.ops[r.op].isView() ? 0 : r.output) : StorageId();
  }
  // All storages that the op reads, each once.
  Reads readsOf(const Problem &p, const Op &op) const;
  // Donations to the op's outputs; `firstMade` is the storage of the first output.
  Task::Donations donationsOf(const Problem &p, const Op &op, StorageId firstMade) const;

  // By storage: the number of the last call of `readsOf` that met it; and the number of calls.
  mutable IdVector<StorageId, uint32_t> metAt_;
  mutable uint32_t numCalls_ = 0;

  std::vector<char> needed_;       // by Problem::ops
  std::vector<StorageId> firstOf_; // by op: its first storage, or its view's
  // By view: the other storages that its readers need.
  std::vector<Reads> touches_;
};

} // namespace isthmus::plan
