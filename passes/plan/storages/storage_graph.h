// The problem as the search sees it. A reader of a view needs all operands of the view, and the
// operands of a view that must not run again are not rematerialized. Standard library only.
#pragma once

#include "passes/plan/storages/storages.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {

struct StorageGraph : Storages {
  // `withAlternatives`: also uses the problem's alternatives, if they have the plain form that
  // networks have; others are left out. In that form, no alternative reads another one's results,
  // with two exceptions: prefetches read storages on the host, and any alternative may read
  // helpers. A helper is an alternative to no op, and reads original storages and other helpers.
  // All but forms may run again; a prefetch makes one storage, and a wait waits for nothing else.
  explicit StorageGraph(const Problem &p, bool withAlternatives = false);

  Order order;
  uint32_t numOriginal = 0; // the tasks that are not alternatives; they come first
  TaskId firstBackward;     // none if there is no backward task
  bool hasTransfers = false;

  bool isLarge() const { return numOriginal >= kManyTasks; }
  bool hasAlternatives() const { return tasks.size() > numOriginal; }
  bool isAlternative(TaskId t) const { return t.index >= numOriginal; }
  // The alternatives that may make another instance of the storage.
  const std::vector<TaskId> &alternatives(StorageId s) const {
    static const std::vector<TaskId> kNoTasks;
    return hasAlternatives() ? alternatives_[s] : kNoTasks;
  }
  // The other forms of original tasks, as pairs of the task and a form. A form makes all results of
  // the task and can run in its place. An inverse is no form: it reads storages made from the
  // task's results.
  using Forms = std::vector<std::pair<TaskId, TaskId>>;
  std::pair<Forms::const_iterator, Forms::const_iterator> formsOf(TaskId t) const {
    return std::equal_range(forms_.begin(), forms_.end(), std::pair(t, TaskId()),
                            [](const auto &a, const auto &b) { return a.first < b.first; });
  }
  bool hasForms() const { return !forms_.empty(); }
  bool hasInverses() const { return hasInverses_; }
  static bool isPrefetch(const Task &t) { return t.transfer == Task::Transfer::Prefetch; }
  bool canRematerialize(StorageId s) const {
    return tasks[storages[s].maker].mayRepeat || !alternatives(s).empty();
  }
  // True also if some reader has a form that does not read the storage.
  bool canEvict(StorageId s) const { return canRematerialize(s) || (hasForms() && isSpared_[s]); }
  // Tasks that overwrite a pinned storage that the task reads, directly or in a view: all steps of
  // the task come before theirs.
  const std::vector<TaskId> &overwritersOf(TaskId t) const { return of(overwriters_, t); }
  // Tasks that read the storages that the task overwrites.
  const std::vector<TaskId> &readersOfOverwritten(TaskId t) const { return of(readers_, t); }
  const Problem &problem() const { return p_; }
  const std::vector<char> &neededOps() const { return needed_; }

private:
  void addAlternatives();
  bool isUsable(const std::vector<Read> &inputs) const;
  bool addHelper(const Read &input, int depth = 0);
  Task taskOf(OpIndex i) const;
  // Sets the storages of which the task makes new instances; false if one of them may have only one
  // instance.
  bool setMade(const Op &from, Task &task) const;
  void addForm(OpIndex i);
  // Whether the op, or a helper that it reads, reads ops later than `than`.
  bool readsLaterOps(const Op &op, OpIndex than) const;
  void findSpared();
  void addPrefetch(OpIndex wait, std::vector<TaskId> &offloads);
  void findOverwrites();

  using TaskLists =
      IdVector<TaskId, std::vector<TaskId>>; // by task; empty if no op overwrites anything
  static const std::vector<TaskId> &of(const TaskLists &lists, TaskId t) {
    static const std::vector<TaskId> kNoTasks;
    return t.index < lists.size() ? lists[t] : kNoTasks;
  }

  const Problem &p_;
  IdVector<StorageId, std::vector<TaskId>> alternatives_;
  Forms forms_; // sorted
  bool hasInverses_ = false;
  IdVector<StorageId, char> isSpared_;
  TaskLists overwriters_, readers_;
};

} // namespace isthmus::plan
