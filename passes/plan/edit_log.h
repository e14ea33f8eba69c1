// Edits of a schedule that can be undone. Those that succeed leave a valid schedule.
#pragma once

#include "passes/plan/editable_schedule.h"

namespace isthmus::plan {

class EditLog {
public:
  // `mayReorder`: first steps may change places.
  EditLog(const StorageGraph &g, bool mayReorder);
  void assign(const std::vector<TaskId> &tasks);

  const EditableSchedule &schedule() const { return s_; }
  bool mayReorder() const { return mayReorder_; }

  StepId insert(TaskId task, StepId before);
  void remove(StepId r);
  // Runs the task elsewhere; every read binds to the instance that it bound to. Returns the new
  // step.
  StepId move(StepId r, StepId before);
  // Removes steps of which nothing is read any more, by removals and by what `mayBeUnread` named.
  void removeUnread();
  void mayBeUnread(StepId r) { suspects_.push_back(r); }
  // Whether the problem's order keeps the step where it is.
  bool hasItsPlace(StepId r) const;

  struct Edit {
    bool isInsertion;
    TaskId task;
    StepId step, before;
  };
  size_t size() const { return log_.size(); }
  std::vector<Edit> since(size_t size) const { return {log_.begin() + size, log_.end()}; }
  void undo(size_t toSize = 0);
  // The same in the midst of edits: what may be unread by those before still may.
  struct Mark {
    size_t size, numSuspects;
  };
  Mark mark() const { return {log_.size(), suspects_.size()}; }
  void undoTo(const Mark &m);
  // Edits that were made here and undone.
  void redo(const std::vector<Edit> &edits);
  void commit() { log_.clear(); }

  // Original tasks of which there are two steps or more, those of other forms included.
  const std::vector<TaskId> &repeated() const { return repeated_; }
  const std::vector<InstanceId> &instancesOfSteps(TaskId t) const {
    return s_.instances(mostMade(t));
  }
  size_t numSteps(TaskId t) const { return instancesOfSteps(t).size(); }

private:
  // Of the task's results, the one of which there are most instances.
  StorageId mostMade(TaskId t) const;
  void noteRepeats(TaskId t);

  EditableSchedule s_;
  const StorageGraph &g_;
  const bool mayReorder_;
  std::vector<Edit> log_;
  std::vector<StepId> suspects_; // steps that may have become unread
  std::vector<TaskId> repeated_;
  IdVector<TaskId, uint32_t> placeInRepeated_;
};

} // namespace isthmus::plan
