#include "passes/plan/chains/checkpoint_recursion.h"

#include "ir/splitmix64.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

namespace isthmus::plan {
namespace {

constexpr uint32_t kUsualParts = 256, kMostParts = 1024;
constexpr uint32_t kLanes = 16; // sums that are compared at once

// All sizes of a link but those of the storages that it makes.
std::array<int64_t, 8> sizesOf(const ChainLink &l) {
  return {l.sweepPeak,        l.passingPeak,  l.keepingPeak,   l.keptBytes,
          l.keptBackwardPeak, l.backwardPeak, l.gradientBytes, l.leftBytes};
}

// least[i] = min(least[i], cost + a[i] + b[i])
void takeLeast(float *__restrict least, const float *__restrict a, const float *__restrict b,
               float cost, size_t n) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t k = i; k < i + kLanes; ++k) {
      const float sum = cost + a[k] + b[k];
      least[k] = sum < least[k] ? sum : least[k];
    }
  for (; i < n; ++i)
    least[i] = std::min(least[i], cost + a[i] + b[i]);
}

} // namespace

CheckpointRecursion::CheckpointRecursion(const std::vector<ChainLink> &links, int64_t mostBytes,
                                         uint64_t mostWork)
    : links_(links), splits_(links.size() + 1) {
  choosePart(mostBytes);
  sweepCosts_.assign(1, 0);
  left_.assign(1, 0);
  for (const ChainLink &l : links) {
    sweepCosts_.push_back(sweepCosts_.back() + l.sweepCost);
    left_.push_back(left_.back() + l.leftBytes);
  }
  findTypes();
  findCrossings();
  isComplete_ = mostSums() <= mostWork;
  if (!isComplete_)
    return;
  const uint32_t whole = idOf(0, uint32_t(links.size()));
  solve(whole);
  const std::vector<float> &costs = intervals_[whole].costs;
  for (uint32_t m = 0; m <= most_ && least_ > most_; ++m)
    if (costs[m] < kNever)
      least_ = m;
}

// Sizes that are multiples of one another are counted exactly where that takes few parts. Otherwise
// the size of most checkpoints is a whole number of parts.
void CheckpointRecursion::choosePart(int64_t mostBytes) {
  std::map<int64_t, int64_t> times;
  int64_t divisor = 0;
  for (const ChainLink &l : links_) {
    int64_t bytes = 0;
    for (const ChainLink::Crossing &c : l.made) {
      bytes += c.bytes;
      divisor = std::gcd(divisor, c.bytes);
    }
    if (bytes > 0)
      ++times[bytes];
    for (int64_t size : sizesOf(l))
      divisor = std::gcd(divisor, size);
  }
  int64_t usual = 0, most = 0;
  for (auto [bytes, n] : times)
    if (n * bytes > most) {
      most = n * bytes;
      usual = bytes;
    }
  const double bytes = double(std::max<int64_t>(1, mostBytes));
  if (divisor > 0 && bytes / double(divisor) <= kUsualParts)
    part_ = double(divisor);
  else if (usual > 0 && bytes / double(usual) <= kMostParts)
    part_ = double(usual) / std::max(1.0, std::floor(kUsualParts * double(usual) / bytes));
  else
    part_ = bytes / kUsualParts;
  part_ = std::max(1.0, part_);
  most_ = kMostParts;
  most_ = partsWithin(mostBytes);
}

int32_t CheckpointRecursion::parts(int64_t bytes) const {
  const double parts = std::round(double(bytes) / part_), most = most_;
  return int32_t(std::clamp(parts, -most - 1, most + 1));
}

uint32_t CheckpointRecursion::partsWithin(int64_t bytes) const {
  constexpr double kRounding = 1e-9;
  return uint32_t(std::clamp(double(bytes) / part_ * (1 + kRounding), 0.0, double(most_)));
}

int64_t CheckpointRecursion::leastBytes() const {
  return int64_t(std::ceil(double(least_) * part_));
}

// Links are of one type if the recursion cannot tell them apart.
void CheckpointRecursion::findTypes() {
  std::map<std::vector<uint64_t>, size_t> types;
  hashes_.assign(1, 0);
  powers_.assign(1, 1);
  for (const ChainLink &l : links_) {
    std::vector<uint64_t> text;
    for (double cost : {l.sweepCost, l.keepingCost, l.backwardCost})
      text.push_back(std::bit_cast<uint64_t>(cost));
    for (int64_t bytes : sizesOf(l))
      text.push_back(uint64_t(bytes));
    for (const ChainLink::Crossing &c : l.made) {
      text.push_back(uint64_t(c.bytes));
      text.push_back(c.reach);
    }
    types_.push_back(uint32_t(types.try_emplace(std::move(text), types.size()).first->second));
    constexpr uint64_t kBase = 0xd1342543de82ef95;
    hashes_.push_back(hashes_.back() * kBase + splitMix64(types_.back()));
    powers_.push_back(powers_.back() * kBase);
  }
}

void CheckpointRecursion::findCrossings() {
  const uint32_t n = uint32_t(links_.size());
  crossings_.resize(n + 1);
  reach_.assign(n + 1, 0);
  for (uint32_t i = 0; i < n; ++i) {
    reach_[i + 1] = reach_[i];
    for (const ChainLink::Crossing &c : links_[i].made) {
      const uint32_t last = std::min(n, i + 1 + c.reach);
      reach_[i + 1] = std::max(reach_[i + 1], last);
      for (uint32_t k = i + 1; k <= last; ++k)
        if (!crossings_[k].empty() && crossings_[k].back().first == i)
          crossings_[k].back().second += c.bytes;
        else
          crossings_[k].push_back({i, c.bytes});
    }
  }
  for (auto &at : crossings_)
    for (size_t k = at.size(); k-- > 1;)
      at[k - 1].second += at[k].second;
  std::vector<int64_t> passing(n);
  for (uint32_t i = 0; i < n; ++i)
    passing[i] = links_[i].passingPeak + (crossings_[i].empty() ? 0 : crossings_[i][0].second);
  highest_.push_back(std::move(passing));
  for (size_t width = 1; 2 * width <= n; width *= 2) {
    const std::vector<int64_t> &half = highest_.back();
    std::vector<int64_t> whole(n - 2 * width + 1);
    for (size_t i = 0; i < whole.size(); ++i)
      whole[i] = std::max(half[i], half[i + width]);
    highest_.push_back(std::move(whole));
  }
}

// The bytes of the storages that the links (begin, middle] make and that cross the last one's end.
int64_t CheckpointRecursion::heldBytes(uint32_t begin, uint32_t middle) const {
  const auto &at = crossings_[middle];
  const auto from = std::lower_bound(at.begin(), at.end(), begin,
                                     [](const auto &c, uint32_t b) { return c.first < b; });
  return from == at.end() ? 0 : from->second;
}

// The peaks of sweeps from one beginning, at ascending middles. Where no storage from before the
// beginning reaches, the crossing storages are the same for every beginning.
class CheckpointRecursion::SweepPeaks {
public:
  SweepPeaks(const CheckpointRecursion &r, uint32_t begin)
      : r_(r), begin_(begin), next_(begin + 1), peak_(r.links_[begin].sweepPeak) {}

  int64_t until(uint32_t middle) {
    for (; next_ < middle && next_ <= r_.reach_[begin_]; ++next_)
      peak_ = std::max(peak_, r_.heldBytes(begin_, next_) + r_.links_[next_].passingPeak);
    if (next_ >= middle)
      return peak_;
    const size_t level = size_t(std::bit_width(middle - next_)) - 1, width = size_t(1) << level;
    const std::vector<int64_t> &highest = r_.highest_[level];
    return std::max({peak_, highest[next_], highest[middle - width]});
  }

private:
  const CheckpointRecursion &r_;
  const uint32_t begin_;
  uint32_t next_; // the first link that `peak_` leaves out
  int64_t peak_;
};

// The number of sums of costs at most, where intervals that are alike are counted once. (The
// intervals of one length that differ are told by the prefixes that neighbours share among all
// suffixes in order.)
uint64_t CheckpointRecursion::mostSums() {
  constexpr uint64_t kPerPlace = 16; // examining a storage that crosses takes as long as some sums
  const uint32_t n = uint32_t(links_.size());
  auto shared = [&](uint32_t a, uint32_t b) {
    uint32_t low = 0, high = n - std::max(a, b);
    while (low < high) {
      const uint32_t middle = (low + high + 1) / 2;
      if (hashOf(a, a + middle) == hashOf(b, b + middle))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  };
  std::vector<uint32_t> suffixes(n);
  std::iota(suffixes.begin(), suffixes.end(), 0);
  std::sort(suffixes.begin(), suffixes.end(), [&](uint32_t a, uint32_t b) {
    const uint32_t same = a == b ? n - a : shared(a, b);
    const uint32_t nextA = a + same, nextB = b + same;
    return nextA == n || nextB == n ? nextA == n && nextB != n : types_[nextA] < types_[nextB];
  });
  std::vector<uint32_t> repeated(n + 2); // by length; first as differences
  for (size_t i = 1; i < n; ++i)
    ++repeated[shared(suffixes[i - 1], suffixes[i])];
  for (uint32_t length = n; length-- > 0;)
    repeated[length] += repeated[length + 1];
  uint64_t longest = 0, sums = 0;
  for (uint32_t i = 0; i < n; ++i)
    longest = std::max<uint64_t>(longest, reach_[i] > i ? reach_[i] - i : 0);
  for (uint32_t length = 2; length <= n; ++length)
    sums += uint64_t(n - length + 1 - repeated[length]) *
            (splitsOf(length).size() * (most_ + kLanes) +
             kPerPlace * std::min<uint64_t>(length, longest));
  return sums;
}

// All places in short intervals; in long ones fewer in the middle, since near the best place the
// costs differ little.
const std::vector<uint32_t> &CheckpointRecursion::splitsOf(uint32_t length) {
  constexpr uint32_t kShort = 48, kFromBegin = 16, kFromEnd = 8;
  std::vector<uint32_t> &splits = splits_[length];
  if (!splits.empty())
    return splits;
  if (length <= kShort) {
    for (uint32_t i = 1; i < length; ++i)
      splits.push_back(i);
    return splits;
  }
  for (uint32_t i = 1; i < length; i += 1 + i / kFromBegin)
    splits.push_back(i);
  for (uint32_t i = 1; i < length; i += 1 + i / kFromEnd)
    splits.push_back(length - i);
  std::sort(splits.begin(), splits.end());
  splits.erase(std::unique(splits.begin(), splits.end()), splits.end());
  return splits;
}

uint64_t CheckpointRecursion::hashOf(uint32_t begin, uint32_t end) const {
  return hashes_[end] - hashes_[begin] * powers_[end - begin];
}

uint32_t CheckpointRecursion::idOf(uint32_t begin, uint32_t end) {
  const auto [found, isNew] =
      ids_.try_emplace(hashOf(begin, end) ^ splitMix64(end - begin), uint32_t(intervals_.size()));
  if (isNew)
    intervals_.push_back({begin, end, false, {}});
  return found->second;
}

template <typename Visit>
void CheckpointRecursion::visitSplits(uint32_t begin, uint32_t end, Visit visit) {
  const int64_t gradient = links_[end - 1].gradientBytes;
  SweepPeaks peaks(*this, begin);
  for (uint32_t offset : splitsOf(end - begin)) {
    const uint32_t middle = begin + offset;
    const int64_t held = heldBytes(begin, middle);
    const int32_t outer = parts(left_[end] - left_[middle]);
    visit(Split{middle, false, sweepCosts_[middle] - sweepCosts_[begin],
                parts(peaks.until(middle) + gradient), parts(held), outer});
    if (offset > 1)
      continue;
    const ChainLink &l = links_[begin];
    visit(Split{middle, true, l.keepingCost,
                std::max(parts(l.keepingPeak + gradient), parts(l.keptBackwardPeak) + outer),
                parts(held + l.keptBytes), outer});
  }
}

// The cost within this many parts. More than there are do not help.
float CheckpointRecursion::costAt(uint32_t id, int64_t parts) const {
  return parts < 0 ? kNever : intervals_[id].costs[size_t(std::min<int64_t>(parts, most_))];
}

// Depth first over the intervals that are not done, without recursion: chains are thousands of
// links long.
void CheckpointRecursion::solve(uint32_t whole) {
  struct Frame {
    uint32_t id;
    size_t next;
  };
  std::vector<Frame> stack = {{whole, 0}};
  while (!stack.empty()) {
    Frame &f = stack.back();
    const uint32_t id = f.id, begin = intervals_[id].begin, end = intervals_[id].end;
    const std::vector<uint32_t> &splits = splitsOf(end - begin);
    uint32_t missing = ~0u;
    for (; f.next < splits.size() && missing == ~0u; f.next += missing == ~0u) {
      const uint32_t middle = begin + splits[f.next];
      if (uint32_t inner = idOf(middle, end); !intervals_[inner].isDone)
        missing = inner;
      else if (uint32_t outer = idOf(begin, middle); !intervals_[outer].isDone)
        missing = outer;
    }
    if (missing != ~0u) {
      stack.push_back({missing, 0});
      continue;
    }
    fill(id);
    stack.pop_back();
  }
}

void CheckpointRecursion::fill(uint32_t id) {
  const uint32_t begin = intervals_[id].begin, end = intervals_[id].end;
  std::vector<float> costs(most_ + 1, kNever);
  if (end == begin + 1) {
    const ChainLink &l = links_[begin];
    for (int32_t m = std::max(0, parts(l.backwardPeak)); m <= int32_t(most_); ++m)
      costs[size_t(m)] = float(l.backwardCost);
  } else {
    visitSplits(begin, end, [&](const Split &s) {
      const std::vector<float> &inner = intervals_[idOf(s.middle, end)].costs;
      const std::vector<float> &outer = intervals_[idOf(begin, s.middle)].costs;
      const int64_t from = std::max({0, s.need, s.inner, s.outer}), end = int64_t(most_) + 1;
      if (from >= end)
        return;
      const float cost = float(s.cost);
      // Above `rest`, the outer interval has all parts that help.
      const int64_t rest = s.outer < 0 ? std::clamp<int64_t>(end + s.outer, from, end) : end;
      auto at = [](const std::vector<float> &costs, int64_t m) { return costs.data() + m; };
      if (s.isKeeping) {
        for (int64_t m = from; m < end; ++m)
          costs[size_t(m)] = std::min(costs[size_t(m)], cost + inner[size_t(m - s.inner)]);
        return;
      }
      takeLeast(costs.data() + from, at(inner, from - s.inner), at(outer, from - s.outer), cost,
                size_t(rest - from));
      for (int64_t m = rest; m < end; ++m)
        costs[size_t(m)] =
            std::min(costs[size_t(m)], cost + inner[size_t(m - s.inner)] + outer[most_]);
    });
  }
  intervals_[id].costs = std::move(costs);
  intervals_[id].isDone = true;
}

double CheckpointRecursion::cost(int64_t bytes) {
  return costAt(idOf(0, uint32_t(links_.size())), partsWithin(bytes));
}

std::vector<ChainRun> CheckpointRecursion::runs(int64_t bytes, size_t most) {
  using Kind = ChainRun::Kind;
  struct Todo { // an interval within this many parts, or a run of its only link
    uint32_t begin, end;
    int64_t parts;
    bool isRun;
  };
  std::vector<ChainRun> runs;
  std::vector<Todo> stack = {{0, uint32_t(links_.size()), partsWithin(bytes), false}};
  while (!stack.empty()) {
    const Todo t = stack.back();
    stack.pop_back();
    if (t.isRun || t.end == t.begin + 1) {
      runs.push_back({t.isRun ? Kind::KeptBackward : Kind::Backward, t.begin});
      continue;
    }
    double least = 2.0 * double(kNever);
    Split best{};
    visitSplits(t.begin, t.end, [&](const Split &s) {
      if (t.parts < s.need)
        return;
      const double inner = double(costAt(idOf(s.middle, t.end), t.parts - s.inner));
      const double outer =
          s.isKeeping ? 0 : double(costAt(idOf(t.begin, s.middle), t.parts - s.outer));
      if (s.cost + inner + outer < least) {
        least = s.cost + inner + outer;
        best = s;
      }
    });
    if (runs.size() + best.middle - t.begin > most)
      return {};
    for (uint32_t i = t.begin; i < best.middle; ++i)
      runs.push_back({best.isKeeping ? Kind::KeepingSweep : Kind::Sweep, i});
    stack.push_back(
        {t.begin, best.middle, std::min<int64_t>(t.parts - best.outer, most_), best.isKeeping});
    stack.push_back({best.middle, t.end, t.parts - best.inner, false});
  }
  return runs;
}

} // namespace isthmus::plan
