#include "passes/plan/search/evictor.h"

#include <algorithm>

namespace isthmus::plan {

// --- Idle intervals

bool Evictor::takesDonation(StepId r, StorageId from) const {
  if (r == s_.end())
    return false;
  const auto &donations = s_.task(r).donations;
  return std::any_of(donations.begin(), donations.end(),
                     [&](const auto &d) { return d.read == from; });
}

int64_t Evictor::highestIn(const IdleInterval &idle) const {
  const EditableSchedule::Readers &readers = s_.readers(idle.instance);
  StepId from = idle.reader ? readers[idle.reader - 1] : s_.maker(idle.instance);
  const LiveProfile &profile = s_.profile();
  int64_t most = profile.maxBetween(from, readers[idle.reader]);
  return takesDonation(from, s_.storageOf(idle.instance)) ? std::max(most, profile.liveAt(from))
                                                          : most;
}

IdleInterval Evictor::intervalAt(StorageId s, StepId step) const {
  InstanceId c = s_.newestBefore(s, step);
  if (!c)
    return {};
  const EditableSchedule::Readers &readers = s_.readers(c);
  if (readers.empty() || !s_.isBefore(step, readers.back()))
    return {};
  const uint32_t k = s_.numReadersBefore(c, s_.position(step));
  if (readers[k] != step)
    return {c, k};
  return takesDonation(step, s) ? IdleInterval{c, k + 1} : IdleInterval{};
}

IdleInterval Evictor::widestInterval(InstanceId c) const {
  const EditableSchedule::Readers &readers = s_.readers(c);
  state_.addWork(readers.size() / 64);
  IdleInterval widest;
  LiveProfile::Position width = 0, last = s_.position(s_.maker(c));
  for (uint32_t k = 0; k < readers.size(); ++k) {
    LiveProfile::Position here = s_.position(readers[k]);
    if (here - last > width) {
      width = here - last;
      widest = {c, k};
    }
    last = here;
  }
  return widest;
}

// --- Evictions

bool Evictor::makeAgain(const IdleInterval &idle, const EvictOptions &o) {
  remat_.begin();
  StepId before = s_.readers(idle.instance)[idle.reader];
  if (idle.reader == 0)
    edits_.mayBeUnread(s_.maker(idle.instance)); // its reads may all move to the new one
  const StorageId s = s_.storageOf(idle.instance);
  if (!remat_.exchangeReader(before, s, o) && !remat_.rematerialize(s, before, o))
    return false;
  edits_.removeUnread();
  return true;
}

bool Evictor::evict(const IdleInterval &idle, const EvictOptions &o) {
  remat_.extended.clear();
  const int64_t excessBefore = o.extendOperands ? state_.excess() : 0;
  const double costBefore = state_.cost();
  if (!makeAgain(idle, o))
    return false;
  if (o.extendOperands)
    evictSiblings(o, excessBefore, costBefore);
  return true;
}

bool Evictor::Gain::isWorthMoreThan(const Gain &other) const {
  return bytes > other.bytes &&
         (other.bytes <= 0 || double(bytes) * other.addedCost >= double(other.bytes) * addedCost);
}

// An eviction that keeps its operands live may gain nothing, and many that share these operands may
// gain much. An example is a dense block: the operands of its concatenations are all the block's
// layers.
void Evictor::evictSiblings(const EvictOptions &o, int64_t excessBefore, double costBefore) {
  constexpr int kMostTries = 40;
  std::vector<StorageId> &extended = remat_.extended;
  auto gainNow = [&] { return Gain{excessBefore - state_.excess(), state_.cost() - costBefore}; };
  Gain gain = gainNow();
  int tries = 0;
  for (size_t i = 0; i < extended.size() && tries < kMostTries; ++i) {
    const StorageId s = extended[i];
    if (std::find(extended.begin(), extended.begin() + i, s) != extended.begin() + i ||
        s_.instances(s).empty())
      continue;
    const EditableSchedule::Readers users = s_.readers(s_.instances(s).front());
    for (StepId user : users) {
      if (user == s_.end() || !s_.profile().isPlaced(user))
        continue;
      const StorageGraph::Task &t = s_.task(user);
      for (uint32_t k = 0; k < t.numMade && t.mayRepeat && !t.isBackward; ++k) {
        const size_t logSize = edits_.size(), numExtended = extended.size();
        if (!s_.profile().isPlaced(user))
          break;
        bool isGain = false;
        if (evictSibling(user, k, o)) {
          ++tries;
          Gain now = gainNow();
          isGain = now.isWorthMoreThan(gain);
          gain = isGain ? now : gain;
        }
        if (!isGain) {
          edits_.undo(logSize);
          extended.resize(numExtended);
        }
      }
    }
  }
}

bool Evictor::evictSibling(StepId user, uint32_t output, const EvictOptions &first) {
  constexpr LiveProfile::Position kWide = 64; // siblings have longer idle intervals
  EvictOptions o = first;
  o.method = EvictOptions::kBestMethod;
  InstanceId c = s_.made(user, output);
  if (state_.isSmall(s_.storageOf(c)))
    return false;
  IdleInterval idle = widestInterval(c);
  if (!idle)
    return false;
  const EditableSchedule::Readers &readers = s_.readers(c);
  StepId from = idle.reader ? readers[idle.reader - 1] : user;
  return s_.position(readers[idle.reader]) - s_.position(from) >= kWide && makeAgain(idle, o);
}

} // namespace isthmus::plan
