#include "passes/plan/search/transfers.h"

#include "passes/plan/search/editable_schedule.h"

#include <algorithm>
#include <tuple>

namespace isthmus::plan {
namespace {

using Transfer = StorageGraph::Task::Transfer;

StepId firstReader(const EditableSchedule &s, StepId r) {
  StepId first;
  for (InstanceId c : s.made(r))
    if (const auto &readers = s.readers(c); !readers.empty())
      if (!first || s.isBefore(readers.front(), first))
        first = readers.front();
  return first;
}

// An offload starts when all its operands have been made.
TransferEvent startOfOffload(const EditableSchedule &s, StepId r) {
  std::pair<LiveProfile::Position, bool> last{0, false}; // and whether after that position
  for (uint32_t k = 0; k < s.task(r).reads.size(); ++k) {
    StepId maker = s.maker(s.read(r, k));
    const bool isPrefetched = s.task(maker).transfer == Transfer::Prefetch;
    last =
        std::max(last, {s.position(isPrefetched ? firstReader(s, maker) : maker), !isPrefetched});
  }
  return {last.second ? TransferEvent::StartOffloadAfter : TransferEvent::StartOffload, last.first,
          s.position(r), r};
}

} // namespace

void findTransferEvents(const EditableSchedule &s, std::vector<TransferEvent> &events) {
  events.clear();
  for (StepId r : s.transfers()) {
    StepId reader = firstReader(s, r);
    if (!reader)
      continue;
    events.push_back({TransferEvent::OwnEnd, s.position(r), 0, r});
    if (s.task(r).transfer == Transfer::Prefetch)
      events.push_back({TransferEvent::WaitForPrefetch, s.position(reader), s.position(r), r});
    else
      events.push_back(startOfOffload(s, r));
  }
  std::sort(events.begin(), events.end(), [](const TransferEvent &a, const TransferEvent &b) {
    return std::tie(a.position, a.kind, a.order) < std::tie(b.position, b.kind, b.order);
  });
}

double TransferStalls::of(const EditableSchedule &s) {
  if (s.transfers().empty())
    return 0;
  if (isKnown_)
    return stalls_;
  isKnown_ = true;
  findTransferEvents(s, events_);
  s.work().done += 4 * events_.size() + s.profile().numChunks() / 8;
  LiveProfile::Clock clock(s.profile()); // without stalls
  double offloaded = 0, prefetched = 0;  // when each direction of the link is free
  stalls_ = 0;
  for (const TransferEvent &e : events_) {
    const StorageGraph::Task &t = s.task(e.step);
    if (e.step.index >= completion_.size())
      completion_.resize(e.step.index + 1);
    const bool isAfter = e.kind == TransferEvent::StartOffloadAfter;
    const double now = clock.until(e.position + isAfter) + stalls_;
    if (isAfter || e.kind == TransferEvent::StartOffload)
      completion_[e.step] = offloaded = std::max(offloaded, now) + t.transferTime;
    else if (e.kind == TransferEvent::OwnEnd && t.transfer == Transfer::Prefetch)
      completion_[e.step] = prefetched = std::max(prefetched, now) + t.transferTime;
    else // a wait
      stalls_ += std::max(0.0, completion_[e.step] - now);
  }
  return stalls_;
}

} // namespace isthmus::plan
