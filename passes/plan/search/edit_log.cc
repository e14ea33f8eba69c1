#include "passes/plan/search/edit_log.h"

#include <cassert>

namespace isthmus::plan {
namespace {

constexpr uint32_t kNotRepeated = ~0u;

} // namespace

EditLog::EditLog(const StorageGraph &g, bool mayReorder)
    : s_(g), g_(g), mayReorder_(mayReorder), placeInRepeated_(g.tasks.size(), kNotRepeated) {}

void EditLog::assign(const std::vector<TaskId> &tasks) {
  s_.assign(tasks);
  log_.clear();
  suspects_.clear();
  for (TaskId t : g_.tasks.ids())
    noteRepeats(t);
}

StorageId EditLog::mostMade(TaskId t) const {
  StorageId most = g_.tasks[t].firstMade;
  if (g_.hasAlternatives())
    for (StorageId s : g_.tasks[t].made())
      if (s_.instances(s).size() > s_.instances(most).size())
        most = s;
  return most;
}

void EditLog::noteRepeats(TaskId t) {
  t = g_.storages[g_.tasks[t].firstMade].maker; // the original, of which it may be a form
  const bool isRepeated = numSteps(t) >= 2;
  uint32_t &place = placeInRepeated_[t];
  if (isRepeated && place == kNotRepeated) {
    place = static_cast<uint32_t>(repeated_.size());
    repeated_.push_back(t);
  } else if (!isRepeated && place != kNotRepeated) {
    TaskId last = repeated_.back();
    repeated_[place] = last;
    placeInRepeated_[last] = place;
    repeated_.pop_back();
    place = kNotRepeated;
  }
}

StepId EditLog::insert(TaskId task, StepId before) {
  StepId r = s_.insert(task, before);
  log_.push_back({true, task, r, before});
  noteRepeats(task);
  return r;
}

void EditLog::remove(StepId r) {
  const TaskId task = s_.taskOf(r);
  log_.push_back({false, task, r, s_.next(r)});
  for (uint32_t k = 0; k < g_.tasks[task].reads.size(); ++k)
    suspects_.push_back(s_.maker(s_.read(r, k)));
  s_.remove(r);
  noteRepeats(task);
}

StepId EditLog::move(StepId r, StepId before) {
  const size_t numSuspects = suspects_.size();
  StepId fresh = insert(s_.taskOf(r), before);
  remove(r);
  suspects_.resize(numSuspects); // the new step reads what the old one read
  return fresh;
}

// The first step of an original op, or of another form of that op.
bool EditLog::hasItsPlace(StepId r) const {
  return !mayReorder_ && s_.isFirst(r) &&
         !g_.isAlternative(g_.storages[s_.task(r).firstMade].maker);
}

void EditLog::removeUnread() {
  while (!suspects_.empty()) {
    StepId r = suspects_.back();
    suspects_.pop_back();
    if (!s_.profile().isPlaced(r) || r == s_.end() || !s_.isUnread(r))
      continue;
    if (!hasItsPlace(r))
      remove(r);
  }
}

// Undoes in reverse, so that every step gets its id back: the schedule reuses ids last in, first
// out.
void EditLog::undo(size_t toSize) { undoTo({toSize, 0}); }

void EditLog::undoTo(const Mark &m) {
  while (log_.size() > m.size) {
    Edit e = log_.back();
    log_.pop_back();
    if (e.isInsertion)
      s_.remove(e.step);
    else
      s_.insert(e.task, e.before);
    noteRepeats(e.task);
  }
  suspects_.resize(m.numSuspects);
}

void EditLog::redo(const std::vector<Edit> &edits) {
  for (const Edit &e : edits) {
    if (!e.isInsertion) {
      remove(e.step);
    } else {
      [[maybe_unused]] StepId r = insert(e.task, e.before);
      assert(r == e.step && "the schedule is not what it was");
    }
  }
  suspects_.clear();
}

} // namespace isthmus::plan
