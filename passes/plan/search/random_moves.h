// The moves of simulated annealing: random edits of a schedule. A move that returns true leaves a
// valid schedule. It returns false if there was nothing to do or if it failed; the caller then
// undoes its edits.
#pragma once

#include "passes/plan/search/evictor.h"

namespace isthmus::plan {

class RandomMoves {
public:
  explicit RandomMoves(SearchState &state)
      : state_(state), g_(state.graph()), s_(state.schedule()), edits_(state.edits),
        random_(state.random), evictor_(state) {}

  bool removeRepeat();                   // removes a repeated step whose results fit when held
  bool ruin();                           // removes a few repeated steps near one another
  bool recreate(double costLimit);       // evicts at the peak until the budget is met
  bool evictOne(double costLimit);       // evicts a storage in a random idle interval
  bool moveCheckpoint(double costLimit); // evicts a storage and keeps results made from it
  bool shiftStep();                      // moves a step by a few places; keeps the cost of steps
  bool exchangeForm();                   // replaces a step by another form of its task

private:
  StepId randomRepeat(TaskId t);
  IdleInterval randomIntervalAt(StepId step);
  StepId lastRepeatAfter(StepId r);
  bool widen(const IdleInterval &idle);
  void removeRepeats();
  TaskId nearbyRepeated(TaskId t);
  bool hasRoomWithout(StepId r) const;
  bool canDoWithout(StepId r) const;
  void hoistReaders(StepId r);
  bool canRun(TaskId t, StepId before) const;
  // Empty if no eviction gains anything.
  std::vector<EditLog::Edit> bestAtPeak(int64_t excessBefore, double costLimit);

  SearchState &state_;
  const StorageGraph &g_;
  const EditableSchedule &s_;
  EditLog &edits_;
  Random &random_;
  Evictor evictor_;
};

} // namespace isthmus::plan
