#include "passes/plan/search/live_profile.h"

#include "passes/plan/sizes.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {
namespace {

constexpr int64_t kEmpty = INT64_MIN / 4;
constexpr uint32_t kDeepTree = 2048; // leaves

} // namespace

void LiveProfile::assign(const std::vector<StepId> &order, const std::vector<int64_t> &live,
                         const std::vector<double> &durations) {
  positions_.clear();
  durations_.clear();
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i].index >= positions_.size()) {
      positions_.resize(order[i].index + 1, kNowhere);
      durations_.resize(withDurations_ ? order[i].index + 1 : 0);
    }
    if (withDurations_)
      durations_[order[i]] = durations[i];
  }
  spread(order, live);
}

// Puts all steps into chunks that are half full.
void LiveProfile::spread(const std::vector<StepId> &order, const std::vector<int64_t> &live) {
  numChunks_ = static_cast<uint32_t>((order.size() + kFill - 1) / kFill);
  leaves_ = 1;
  while (leaves_ < numChunks_)
    leaves_ *= 2;
  at_.assign(numChunks_ * kChunk, StepId());
  live_.assign(numChunks_ * kChunk, 0);
  size_.assign(numChunks_, 0);
  durationOfChunk_.assign(withDurations_ ? numChunks_ : 0, 0);
  tree_.assign(2 * leaves_, {kEmpty, 0});
  isStale_.assign(2 * leaves_, false);
  for (size_t i = 0; i < order.size(); ++i) {
    uint32_t chunk = static_cast<uint32_t>(i / kFill);
    uint32_t at = chunk * kChunk + size_[chunk]++;
    at_[at] = order[i];
    live_[at] = live[i];
    positions_[order[i]] = at;
    if (withDurations_)
      durationOfChunk_[chunk] += durations_[order[i]];
  }
  for (uint32_t c = 0; c < numChunks_; ++c)
    tree_[leaves_ + c].max =
        *std::max_element(live_.begin() + c * kChunk, live_.begin() + c * kChunk + size_[c]);
  for (uint32_t n = leaves_ - 1; n >= 1; --n)
    pull(n);
  work_.done += order.size() * 4;
}

// Spreads steps evenly over the smallest window of chunks, around a full one, that has enough room.
// The wider the window, the more room it must have, so that this is rare (a packed-memory array;
// Bender, Demaine, Farach-Colton, Cache-Oblivious B-Trees, 2000).
void LiveProfile::makeRoom(uint32_t chunk) {
  uint32_t height = 0, levels = 0;
  while ((1u << levels) < numChunks_)
    ++levels;
  uint32_t first = 0, last = 0, total = 0;
  for (height = 1; height <= levels; ++height) {
    first = chunk >> height << height;
    last = std::min(numChunks_, first + (1u << height));
    total = 0;
    for (uint32_t c = first; c < last; ++c)
      total += size_[c];
    double most = 0.9 - 0.3 * height / levels;
    if (total <= most * (last - first) * kChunk)
      break;
  }
  scratchOrder_.clear();
  scratchLive_.clear();
  bool isWhole = height > levels;
  if (isWhole) {
    first = 0;
    last = numChunks_;
  }
  for (uint32_t c = first; c < last; ++c) {
    int64_t up = above(c);
    for (uint32_t i = c * kChunk; i < c * kChunk + size_[c]; ++i) {
      scratchOrder_.push_back(at_[i]);
      scratchLive_.push_back(live_[i] + up);
    }
  }
  if (isWhole)
    return spread(scratchOrder_, scratchLive_);
  size_t next = 0;
  for (uint32_t c = first; c < last; ++c) {
    uint32_t count = uint32_t((scratchOrder_.size() - next) / (last - c));
    int64_t up = above(c);
    size_[c] = count;
    double duration = 0;
    for (uint32_t i = c * kChunk; i < c * kChunk + count; ++i, ++next) {
      at_[i] = scratchOrder_[next];
      live_[i] = scratchLive_[next] - up;
      positions_[at_[i]] = i;
      if (withDurations_)
        duration += durations_[at_[i]];
    }
    if (withDurations_)
      durationOfChunk_[c] = duration;
    markChunk(c);
  }
  work_.done += scratchOrder_.size() * 2;
}

void LiveProfile::insert(StepId step, StepId before, int64_t change, double duration) {
  if (size_[positions_[before] / kChunk] == kChunk)
    makeRoom(positions_[before] / kChunk);
  if (step.index >= positions_.size())
    positions_.resize(step.index + 1, kNowhere);
  const Position at = positions_[before];
  const uint32_t chunk = at / kChunk, end = chunk * kChunk + size_[chunk];
  for (uint32_t i = end; i > at; --i) {
    at_[i] = at_[i - 1];
    live_[i] = live_[i - 1];
    positions_[at_[i]] = i;
  }
  at_[at] = step;
  live_[at] += change;
  positions_[step] = at;
  ++size_[chunk];
  markChunk(chunk);
  if (!withDurations_)
    return;
  durations_.resize(positions_.size());
  durations_[step] = duration;
  durationOfChunk_[chunk] += duration;
}

void LiveProfile::erase(StepId step) {
  const Position at = positions_[step];
  const uint32_t chunk = at / kChunk, end = chunk * kChunk + --size_[chunk];
  for (uint32_t i = at; i < end; ++i) {
    at_[i] = at_[i + 1];
    live_[i] = live_[i + 1];
    positions_[at_[i]] = i;
  }
  if (withDurations_)
    durationOfChunk_[chunk] -= durations_[step];
  positions_[step] = kNowhere;
  markChunk(chunk);
}

// --- Order

StepId LiveProfile::first() const {
  for (uint32_t chunk = 0;; ++chunk)
    if (size_[chunk])
      return at_[chunk * kChunk];
}

StepId LiveProfile::next(StepId r) const {
  uint32_t at = positions_[r], chunk = at / kChunk;
  if (at + 1 < chunk * kChunk + size_[chunk])
    return at_[at + 1];
  for (++chunk; chunk < numChunks_; ++chunk)
    if (size_[chunk])
      return at_[chunk * kChunk];
  return {};
}

StepId LiveProfile::previous(StepId r) const {
  uint32_t at = positions_[r], chunk = at / kChunk;
  if (at > chunk * kChunk)
    return at_[at - 1];
  while (chunk-- > 0)
    if (size_[chunk])
      return at_[chunk * kChunk + size_[chunk] - 1];
  return {};
}

std::vector<StepId> LiveProfile::steps() const {
  std::vector<StepId> out;
  for (uint32_t c = 0; c < numChunks_; ++c)
    out.insert(out.end(), at_.begin() + c * kChunk, at_.begin() + c * kChunk + size_[c]);
  return out;
}

double LiveProfile::Clock::until(Position position) {
  const uint32_t last = position / kChunk;
  auto addSteps = [&](uint32_t end) {
    for (end = std::min(end, chunk_ * kChunk + p_.size_[chunk_]); at_ < end; ++at_)
      sum_ += p_.durations_[p_.at_[at_]];
  };
  for (; chunk_ < last; at_ = ++chunk_ * kChunk) {
    if (at_ == chunk_ * kChunk)
      sum_ += p_.durationOfChunk_[chunk_];
    else
      addSteps(~0u);
  }
  if (chunk_ < p_.numChunks_)
    addSteps(position);
  return sum_;
}

// --- Live bytes

void LiveProfile::markChunk(uint32_t c) {
  for (uint32_t n = leaves_ + c; n && !isStale_[n]; n >>= 1)
    isStale_[n] = true;
}

// Brings the maxima below a stale node, and its own, up to date.
void LiveProfile::refresh(uint32_t n) const {
  isStale_[n] = false;
  if (n >= leaves_)
    return pullChunk(n - leaves_);
  for (uint32_t child : {2 * n, 2 * n + 1})
    if (isStale_[child])
      refresh(child);
  pull(n);
}

// Sets a node's maximum from those below it.
void LiveProfile::pull(uint32_t n) const {
  tree_[n].max = std::max(tree_[2 * n].max, tree_[2 * n + 1].max) + tree_[n].add;
}

// The same for a chunk.
void LiveProfile::pullChunk(uint32_t c) const {
  // Two maxima at a time, so that one need not wait for the other.
  int64_t even = kEmpty, odd = kEmpty;
  uint32_t i = c * kChunk;
  const uint32_t end = i + size_[c];
  for (; i + 1 < end; i += 2) {
    even = std::max(even, live_[i]);
    odd = std::max(odd, live_[i + 1]);
  }
  if (i < end)
    even = std::max(even, live_[i]);
  Node &n = tree_[leaves_ + c];
  n.max = std::max(even, odd) + n.add;
}

int64_t LiveProfile::above(uint32_t chunk) const {
  int64_t sum = 0;
  for (uint32_t n = leaves_ + chunk; n; n >>= 1)
    sum += tree_[n].add;
  return sum;
}

void LiveProfile::add(StepId step, int64_t bytes) {
  if (bytes == 0)
    return;
  live_[positions_[step]] += bytes;
  markChunk(positions_[step] / kChunk);
}

void LiveProfile::addBetween(StepId after, StepId before, int64_t bytes) {
  addRange(positions_[after] + 1, positions_[before] - 1, bytes);
}

void LiveProfile::addAfter(StepId after, StepId through, int64_t bytes) {
  addRange(positions_[after] + 1, positions_[through], bytes);
}

// `from` may be past its chunk's last step, and `to` just before the first position.
void LiveProfile::addRange(Position from, Position to, int64_t b) {
  if (b == 0 || to == kNowhere || from > to)
    return;
  uint32_t first = from / kChunk, last = to / kChunk;
  auto part = [&](uint32_t chunk, uint32_t i, uint32_t e) {
    e = std::min(e, chunk * kChunk + size_[chunk]);
    for (; i < e; ++i)
      live_[i] += b;
  };
  // In a deep tree, more of the path to the root is outside the processor's cache.
  work_.done += leaves_ > kDeepTree ? 5 : 4;
  if (first == last) {
    part(first, from, to + 1);
    return markChunk(first);
  }
  part(first, from, (first + 1) * kChunk);
  part(last, last * kChunk, to + 1);
  markChunk(first);
  markChunk(last);
  // Every node that is added to is below one on the way from the first or the last chunk up.
  uint32_t l = leaves_ + first + 1, r = leaves_ + last;
  for (; l < r; l >>= 1, r >>= 1) {
    if (l & 1) {
      tree_[l].max += b;
      tree_[l++].add += b;
    }
    if (r & 1) {
      tree_[--r].max += b;
      tree_[r].add += b;
    }
  }
}

int64_t LiveProfile::liveAt(StepId r) const {
  const Position at = positions_[r];
  return live_[at] + above(at / kChunk);
}

StepId LiveProfile::peakStep() const {
  refresh();
  uint32_t n = 1;
  while (n < leaves_)
    n = tree_[2 * n].max >= tree_[2 * n + 1].max ? 2 * n : 2 * n + 1;
  uint32_t chunk = n - leaves_;
  auto from = live_.begin() + chunk * kChunk;
  return at_[static_cast<size_t>(std::max_element(from, from + size_[chunk]) - live_.begin())];
}

int64_t LiveProfile::maxBetween(StepId after, StepId before) const {
  Position from = positions_[after] + 1, to = positions_[before] - 1;
  if (to == kNowhere || from > to)
    return 0;
  uint32_t first = from / kChunk, last = to / kChunk;
  int64_t most = 0;
  if (last > first + 1)
    refresh();
  auto part = [&](uint32_t chunk, uint32_t i, uint32_t e) {
    e = std::min(e, chunk * kChunk + size_[chunk]);
    if (i >= e)
      return;
    int64_t m = kEmpty;
    for (; i < e; ++i)
      m = std::max(m, live_[i]);
    most = std::max(most, m + above(chunk));
  };
  if (first == last) {
    part(first, from, to + 1);
    return most;
  }
  part(first, from, (first + 1) * kChunk);
  part(last, last * kChunk, to + 1);
  // Whole chunks are nodes of the tree, each with the additions stored at its ancestors.
  uint32_t l = leaves_ + first + 1, r = leaves_ + last;
  auto whole = [&](uint32_t n) {
    int64_t m = tree_[n].max;
    for (uint32_t a = n >> 1; a; a >>= 1)
      m += tree_[a].add;
    most = std::max(most, m);
  };
  for (; l < r; l >>= 1, r >>= 1) {
    if (l & 1)
      whole(l++);
    if (r & 1)
      whole(--r);
  }
  return most;
}

int64_t LiveProfile::excessOver(int64_t budget, uint32_t n, int64_t above) const {
  ++work_.done;
  if (tree_[n].max + above <= budget)
    return 0;
  if (n >= leaves_ && leaves_ * kChunk <= kMostStretches)
    return excessInChunk(n - leaves_, budget - above - tree_[n].add);
  if (n >= leaves_ || n >= kMostStretches)
    return tree_[n].max + above - budget;
  above += tree_[n].add;
  return saturatingSum(excessOver(budget, 2 * n, above), excessOver(budget, 2 * n + 1, above));
}

// If there are few steps, each one is a stretch of its own.
int64_t LiveProfile::excessInChunk(uint32_t chunk, int64_t budget) const {
  int64_t sum = 0;
  for (uint32_t at = chunk * kChunk; at < chunk * kChunk + size_[chunk]; ++at)
    sum = saturatingSum(sum, std::max<int64_t>(0, live_[at] - budget));
  return sum;
}

} // namespace isthmus::plan
