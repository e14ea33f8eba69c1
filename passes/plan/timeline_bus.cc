// What a schedule with copies to the host and back costs: one clock for the ops that compute, and
// one for each direction of the bus.

#include "passes/plan/timeline.h"

#include <algorithm>
#include <tuple>

namespace isthmus::plan {

void Timeline::noteCopyRun(RunId r, bool isPlaced) {
  areStallsKnown_ = false;
  if (op(runs_[r].op).bus == StorageGraph::Op::Bus::None)
    return;
  if (isPlaced)
    copyRuns_.push_back(r);
  else
    copyRuns_.erase(std::find(copyRuns_.begin(), copyRuns_.end(), r));
}

double Timeline::costBetween(RunId fromRun, RunId toRun) const {
  const uint32_t from = runs_[fromRun].position + 1, to = runs_[toRun].position;
  double sum = 0;
  auto part = [&](uint32_t chunk, uint32_t i, uint32_t e) {
    for (e = std::min(e, chunk * kChunk + size_[chunk]); i < e; ++i)
      sum += opCost(at_[i]);
  };
  const uint32_t first = from / kChunk, last = to / kChunk;
  if (first == last) {
    part(first, from, to);
    return sum;
  }
  part(first, from, (first + 1) * kChunk);
  for (uint32_t c = first + 1; c < last; ++c)
    sum += costIn_[c];
  part(last, last * kChunk, to);
  return sum;
}

// The events are those of the schedule that StorageGraph::scheduleOf makes, in its order.
double Timeline::stalls() const {
  if (areStallsKnown_)
    return stalls_;
  areStallsKnown_ = true;
  using Bus = StorageGraph::Op::Bus;
  events_.clear();
  auto firstReader = [&](RunId r) {
    uint32_t first = kNone;
    for (uint32_t k = 0; k < op(runs_[r].op).numMade; ++k)
      if (const auto &readers = copies_[made(r, k)].readers; !readers.empty())
        first = std::min(first, runs_[readers.front()].position);
    return first;
  };
  for (RunId r : copyRuns_) {
    const StorageGraph::Op &o = op(runs_[r].op);
    const uint32_t at = runs_[r].position, reader = firstReader(r);
    if (reader == kNone)
      continue; // left out
    events_.push_back({BusEvent::Run, at, 0, r});
    if (o.bus == Bus::ToDevice) {
      events_.push_back({BusEvent::WaitBack, reader, 0, r});
      continue;
    }
    std::pair<uint32_t, bool> last{0, false}; // a position, and whether after it
    for (uint32_t k = 0; k < o.reads.size(); ++k) {
      RunId maker = copies_[readCopy(r, k)].maker;
      bool isBack = op(runs_[maker].op).bus == Bus::ToDevice;
      last = std::max(last, {isBack ? firstReader(maker) : runs_[maker].position, !isBack});
    }
    events_.push_back(
        {last.second ? BusEvent::StartOutAfter : BusEvent::StartOut, last.first, at, r});
  }
  std::sort(events_.begin(), events_.end(), [](const BusEvent &a, const BusEvent &b) {
    return std::tie(a.position, a.kind, a.order) < std::tie(b.position, b.kind, b.order);
  });
  completion_.resize(runs_.size());
  work += 4 * events_.size() + numChunks_ / 8;

  double run = 0, waited = 0, out = 0, back = 0; // clocks; the first is of runs alone
  uint32_t chunk = 0, at = 0;                    // `run` is that of all before `at`
  for (const BusEvent &e : events_) {
    const uint32_t until = e.position + (e.kind == BusEvent::StartOutAfter);
    for (; chunk < until / kChunk; at = ++chunk * kChunk) {
      if (at == chunk * kChunk)
        run += costIn_[chunk];
      else
        for (; at < chunk * kChunk + size_[chunk]; ++at)
          run += opCost(at_[at]);
    }
    for (const uint32_t end = std::min(until, chunk * kChunk + size_[chunk]); at < end; ++at)
      run += opCost(at_[at]);
    const double now = run + waited;
    const StorageGraph::Op &o = op(runs_[e.run].op);
    if (e.kind == BusEvent::StartOut || e.kind == BusEvent::StartOutAfter)
      completion_[e.run] = out = std::max(out, now) + o.transferTime;
    else if (e.kind == BusEvent::Run && o.bus == Bus::ToDevice)
      completion_[e.run] = back = std::max(back, now) + o.transferTime;
    else // a wait
      waited += std::max(0.0, completion_[e.run] - now);
  }
  return stalls_ = waited;
}

} // namespace isthmus::plan
