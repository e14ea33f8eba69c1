// A schedule that a search edits: a step may be inserted or removed anywhere, and the live bytes at
// every step stay exact. The order alone determines which instance each step reads and how long
// every instance lives: a read binds to the newest instance, and an instance lives from its step to
// its last read.
//
// An edit costs O(log n) plus the number of the task's reads.
#pragma once

#include "passes/plan/search/live_profile.h"
#include "passes/plan/search/transfers.h"
#include "passes/plan/storages/storage_graph.h"

namespace isthmus::plan {

class EditableSchedule {
public:
  // Starts with the source order.
  explicit EditableSchedule(const StorageGraph &g);
  EditableSchedule(const EditableSchedule &) = delete;

  // Replaces all steps by one step for each of these tasks, in this order, which must be valid.
  void assign(const std::vector<TaskId> &tasks);
  // Inserts a step just before `before`. Every operand of the task must have an instance there.
  StepId insert(TaskId task, StepId before);
  // The step's instances must be unread, or have older instances that take over their readers. The
  // step's id is reused, last in, first out among the steps of its task.
  void remove(StepId step);

  const StorageGraph &graph() const { return g_; }
  const LiveProfile &profile() const { return profile_; }
  int64_t peak() const { return profile_.peak(); }
  // Includes transfer stalls; `stepCost` does not.
  double cost() const { return cost_ + stalls_.of(*this); }
  double stepCost() const { return cost_; }
  std::vector<TaskId> tasks() const; // in order

  // --- Steps
  TaskId taskOf(StepId r) const { return steps_[r].task; }
  const StorageGraph::Task &task(StepId r) const { return task(steps_[r].task); }
  LiveProfile::Position position(StepId r) const { return profile_.position(r); }
  bool isBefore(StepId a, StepId b) const { return position(a) < position(b); }
  StepId end() const { return end_; } // after all steps; reads all storages that live to the end
  StepId first() const { return profile_.first(); }
  StepId next(StepId r) const { return profile_.next(r); }
  StepId previous(StepId r) const { return profile_.previous(r); } // none at the first
  bool isFirst(StepId r) const;                                    // of its task
  const std::vector<StepId> &transfers() const { return transfers_; }

  // --- Instances
  InstanceId made(StepId r, uint32_t output) const { return steps_[r].firstMade + output; }
  IdRange<InstanceId> made(StepId r) const {
    return {steps_[r].firstMade, steps_[r].firstMade + task(r).numMade};
  }
  InstanceId read(StepId r, uint32_t input) const { return reads_[steps_[r].firstRead + input]; }
  StepId maker(InstanceId c) const { return instances_[c].maker; }
  StorageId storageOf(InstanceId c) const { return instances_[c].storage; }
  using Readers = SmallVector<StepId, 4>;
  const Readers &readers(InstanceId c) const { return instances_[c].readers; } // in order
  // The number of its readers before the position.
  uint32_t numReadersBefore(InstanceId c, LiveProfile::Position position) const;
  // Its last reader, or its maker if it has no reader.
  StepId lastUse(InstanceId c) const {
    return instances_[c].readers.empty() ? instances_[c].maker : instances_[c].readers.back();
  }
  using Instances = SmallVector<InstanceId, 2>;
  const Instances &instances(StorageId s) const { return ofStorage_[s]; } // in order
  InstanceId newestBefore(StorageId s, StepId r) const; // no id if no instance is older
  InstanceId oldestAfter(StorageId s, StepId r) const;  // instances made by `r` excluded
  bool isUnread(StepId r) const;                        // whether all its instances are unread

  WorkCount &work() const { return work_; }

private:
  struct Step {
    TaskId task;
    uint32_t firstRead = 0;
    InstanceId firstMade;
    StepId nextFree;   // of a removed step: the one of its task that was removed before it
    int64_t extra = 0; // workspace less donated bytes
  };
  struct Instance {
    StorageId storage;
    StepId maker;
    Readers readers;
  };

  static uint64_t editWork(const StorageGraph::Task &t);
  const StorageGraph::Task &task(TaskId t) const {
    return t.index < g_.tasks.size() ? g_.tasks[t] : endTask_;
  }
  StepId newStep(TaskId task);
  void place(StepId r, StepId before);
  void displace(StepId r);
  // Returns the bytes that the new instance adds to the live bytes of its step.
  int64_t insertInstance(InstanceId fresh, StepId r);
  void removeInstance(InstanceId gone, StepId r);
  void rebind(const Readers &readers, StorageId s, InstanceId to);
  void bindReads(StepId r);
  int64_t donatedAt(StepId r) const;
  void refreshExtra(StepId r);
  void refreshTouched();
  int64_t bytes(StorageId s) const { return g_.storages[s].bytes; }
  int64_t bytes(InstanceId c) const { return bytes(instances_[c].storage); }
  size_t rankOf(StorageId s, LiveProfile::Position position) const;

  const StorageGraph &g_;
  StorageGraph::Task endTask_;
  mutable WorkCount work_;
  LiveProfile profile_;
  mutable TransferStalls stalls_;

  IdVector<StepId, Step> steps_;
  std::vector<InstanceId> reads_; // by step and input
  IdVector<InstanceId, Instance> instances_;
  IdVector<StorageId, Instances> ofStorage_;
  IdVector<TaskId, StepId> free_; // the step that was removed last
  StepId end_;
  double cost_ = 0;
  bool hasDonations_ = false;
  std::vector<StepId> transfers_; // steps of offloads and prefetches, in no order

  // Scratch space.
  mutable std::vector<StorageId> givers_, takers_;
  std::vector<StepId> touched_; // where this edit moved an instance's last use to or from
};

} // namespace isthmus::plan
