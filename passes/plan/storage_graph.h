// The problem as the search sees it: a reader of a view needs all that the view reads, and what a
// view that must not run again reads is not rematerialized. Standard library only.
#pragma once

#include "passes/plan/storages.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {

struct StorageGraph : Storages {
  // `withAlternatives`: with the problem's alternatives, where they have the plain form that
  // networks have: none reads what another one makes, except for prefetches, which read what is on
  // the host, and what is an alternative to nothing, a helper: others may read what it makes of
  // original storages and of what helpers make. All but forms may run again; prefetches make one
  // storage, and waits wait for nothing else. Alternatives that do not have it are left out.
  explicit StorageGraph(const Problem &p, bool withAlternatives = false);

  Order order;
  uint32_t numOriginal = 0; // tasks that are no alternatives, which come first
  TaskId firstBackward;     // none if there is no such task
  bool hasTransfers = false;

  bool hasAlternatives() const { return tasks.size() > numOriginal; }
  bool isAlternative(TaskId t) const { return t.index >= numOriginal; }
  // The alternatives that may make another instance of the storage.
  const std::vector<TaskId> &alternatives(StorageId s) const {
    static const std::vector<TaskId> kNoTasks;
    return hasAlternatives() ? alternatives_[s] : kNoTasks;
  }
  // The other forms of an original task, which make all that it makes and can run in its place:
  // pairs of it and the form. An inverse cannot; it reads what is made of what it makes.
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
  // Also where some reader has a form that can do without it.
  bool canEvict(StorageId s) const { return canRematerialize(s) || (hasForms() && isSpared_[s]); }
  // Tasks that overwrite something pinned that the task reads, be it in a view: all its steps come
  // before theirs.
  const std::vector<TaskId> &overwritersOf(TaskId t) const { return of(overwriters_, t); }
  // Tasks that read what the task overwrites.
  const std::vector<TaskId> &readersOfOverwritten(TaskId t) const { return of(readers_, t); }
  const Problem &problem() const { return p_; }
  const std::vector<char> &neededOps() const { return needed_; }

private:
  void addAlternatives();
  bool isUsable(const std::vector<Read> &inputs) const;
  bool addHelper(const Read &input, int depth = 0);
  Task taskOf(OpIndex i) const;
  // Sets the storages of which the task makes new instances; false if there may be none.
  bool setMade(const Op &from, Task &task) const;
  void addForm(OpIndex i);
  // Itself, or what it reads of helpers.
  bool readsLaterOps(const Op &op, OpIndex than) const;
  void findSpared();
  void addPrefetch(OpIndex wait, std::vector<TaskId> &offloads);
  void findOverwrites();

  using TaskLists =
      IdVector<TaskId, std::vector<TaskId>>; // by task; empty where nothing overwrites
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
