#include "passes/plan/search/search_state.h"

#include <algorithm>
#include <cmath>

namespace isthmus::plan {
namespace {

// Each small storage has at most the first share of the budget, and those live at the peak together
// at most the second.
constexpr int64_t kSmallShare = 2000, kAllSmallShare = 200;

} // namespace

SearchState::SearchState(const StorageGraph &g, int64_t budget, uint64_t seed, bool mayReorder,
                         bool countsAll)
    : edits(g, mayReorder), random{seed}, g_(g), countsAll_(countsAll) {
  const EditableSchedule &s = schedule();
  const LiveProfile::Position peak = s.position(profile().peakStep());
  for (StorageId storage : g.storages.ids()) {
    if (s.instances(storage).empty())
      continue; // on the host
    InstanceId c = s.instances(storage).front();
    if (s.position(s.maker(c)) <= peak && s.position(s.lastUse(c)) >= peak)
      bytesAtPeak_.push_back(g.storages[storage].bytes);
  }
  std::sort(bytesAtPeak_.begin(), bytesAtPeak_.end());
  setBudget(budget);
}

int64_t SearchState::leastWorthwhile() const {
  if (countsAll_)
    return 1;
  int64_t room = budget_ / kAllSmallShare;
  for (int64_t bytes : bytesAtPeak_)
    if (bytes > budget_ / kSmallShare || (room -= bytes) < 0)
      return std::max<int64_t>(1, std::min(bytes, budget_ / kSmallShare));
  return std::max<int64_t>(1, budget_ / kSmallShare);
}

void SearchState::setBudget(int64_t bytes) {
  budget_ = bytes;
  leastBytes_ = leastWorthwhile();
  candidates_.clear();
  for (StorageId s : g_.storages.ids())
    if (!isSmall(s) && g_.canEvict(s))
      candidates_.push_back(s);
  if (g_.isLarge())
    weighCandidates();
}

void SearchState::weighCandidates() {
  constexpr size_t kPerCandidate = 2;
  auto weight = [&](StorageId s) { return std::sqrt(double(g_.storages[s].bytes)); };
  double all = 0;
  for (StorageId s : candidates_)
    all += weight(s);
  const double part = all / double(kPerCandidate * candidates_.size());
  bySize_.clear();
  double sum = 0;
  for (StorageId s : candidates_)
    for (sum += weight(s); (double(bySize_.size()) + 0.5) * part < sum;)
      bySize_.push_back(s);
}

StorageId SearchState::randomCandidate() {
  constexpr double kBySize = 0.8;
  const std::vector<StorageId> &from =
      !bySize_.empty() && random.chance(kBySize) ? bySize_ : candidates_;
  return from[random.below(from.size())];
}

} // namespace isthmus::plan
