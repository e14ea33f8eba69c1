// Edits of a schedule, with undo. Every successful edit leaves a valid schedule.
#pragma once

#include "passes/plan/search/editable_schedule.h"

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
  // Moves the step to just before `before`; every read stays bound to its instance. Returns the new
  // step.
  StepId move(StepId r, StepId before);
  // Removes steps whose instances have no reader any more: makers of operands of removed steps, and
  // steps named by `mayBeUnread`.
  void removeUnread();
  void mayBeUnread(StepId r) { suspects_.push_back(r); }
  // Whether the problem's order fixes the step's place.
  bool hasItsPlace(StepId r) const;

  struct Edit {
    bool isInsertion;
    TaskId task;
    StepId step, before;
  };
  size_t size() const { return log_.size(); }
  std::vector<Edit> since(size_t size) const { return {log_.begin() + size, log_.end()}; }
  void undo(size_t toSize = 0);
  // A point to undo to in the middle of edits. Steps that earlier edits may have left unread stay
  // candidates for `removeUnread`.
  struct Mark {
    size_t size, numSuspects;
  };
  Mark mark() const { return {log_.size(), suspects_.size()}; }
  void undoTo(const Mark &m);
  // Repeats edits that were made here and undone.
  void redo(const std::vector<Edit> &edits);
  void commit() { log_.clear(); }

  // Original tasks with two or more steps; steps of their other forms count.
  const std::vector<TaskId> &repeated() const { return repeated_; }
  const EditableSchedule::Instances &instancesOfSteps(TaskId t) const {
    return s_.instances(mostMade(t));
  }
  size_t numSteps(TaskId t) const { return instancesOfSteps(t).size(); }

private:
  // The result of the task with the most instances.
  StorageId mostMade(TaskId t) const;
  void noteRepeats(TaskId t);

  EditableSchedule s_;
  const StorageGraph &g_;
  const bool mayReorder_;
  std::vector<Edit> log_;
  std::vector<StepId> suspects_; // steps that may have lost all readers
  std::vector<TaskId> repeated_;
  IdVector<TaskId, uint32_t> placeInRepeated_;
};

} // namespace isthmus::plan
