// The places of the starts and waits of transfers in a schedule, and the time spent waiting for
// them.
#pragma once

#include "passes/plan/search/live_profile.h"

namespace isthmus::plan {

class EditableSchedule;

// A transfer is one step of an editable schedule: the wait of an offload, or the start of a
// prefetch. The place of its other end follows from the readers:
//   - an offload starts right after the step that makes its operand, or, if that was prefetched,
//     right after the wait for it;
//   - the wait for a prefetch comes right before the first reader;
//   - a transfer without readers is left out, both ends of it.
struct TransferEvent {
  // In the order of events at one position.
  enum Kind : uint8_t {
    WaitForPrefetch, // before the step at the position
    StartOffload,    // before the step at the position, after the waits
    OwnEnd,          // the transfer is that step
    StartOffloadAfter
  } kind;
  LiveProfile::Position position;
  LiveProfile::Position order; // among those of one kind at one position
  StepId step;                 // of the transfer
};

// Events in the order of the schedule.
void findTransferEvents(const EditableSchedule &s, std::vector<TransferEvent> &events);

// Time spent waiting for transfers, from one clock for the steps and one for each direction of the
// link. Computed on demand.
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
