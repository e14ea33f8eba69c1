// Where the ends of offloads and prefetches come in a schedule, and how long it waits for them.
#pragma once

#include "passes/plan/live_profile.h"

namespace isthmus::plan {

class EditableSchedule;

// A transfer is one step of an editable schedule: of an offload the wait, of a prefetch the start.
// The other end follows from the readers:
//   - an offload starts right after the step that makes what it copies, or, if that was prefetched,
//     right after the wait for it;
//   - the wait for a prefetch comes right before the first reader;
//   - a transfer that nothing reads is left out, both ends of it.
struct TransferEvent {
  // In the order in which events of one position come.
  enum Kind : uint8_t {
    WaitForPrefetch, // before the step at the position
    StartOffload,    // before it, after the waits
    OwnEnd,          // the transfer is that step
    StartOffloadAfter
  } kind;
  LiveProfile::Position position;
  LiveProfile::Position order; // among those of one kind at one position
  StepId step;                 // of the transfer
};

// In the order of the schedule.
void findTransferEvents(const EditableSchedule &s, std::vector<TransferEvent> &events);

// Time spent on waiting for transfers: one clock for the steps, and one for each direction of the
// link. Computed when it is asked for.
class TransferStalls {
public:
  void forget() { isKnown_ = false; }
  double of(const EditableSchedule &s);

private:
  double stalls_ = 0;
  bool isKnown_ = false;
  std::vector<TransferEvent> events_;
  IdVector<StepId, double> completion_;
};

} // namespace isthmus::plan
