// The moves of simulated annealing: random edits of a schedule. Each leaves a valid schedule, and
// gives false if there was nothing to do or it failed; what was done by then is to be undone.
#pragma once

#include "passes/plan/evictor.h"

namespace isthmus::plan {

class RandomMoves {
public:
  explicit RandomMoves(SearchState &state)
      : state_(state), g_(state.graph()), s_(state.schedule()), edits_(state.edits),
        random_(state.random), evictor_(state) {}

  bool removeRepeat();                   // a repeated step, if there is room for what it saves
  bool ruin();                           // a few repeated steps that are near one another
  bool recreate(double costLimit);       // evicts storages at the peak until the budget is met
  bool evictOne(double costLimit);       // in a random idle interval
  bool moveCheckpoint(double costLimit); // keeps what is made of a storage in its place
  bool shiftStep();                      // by a few places; keeps the cost of steps
  bool exchangeForm();                   // runs another form of a step's task in its place

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
