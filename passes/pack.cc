// Packing: an allocator's simulation in time order, then first fit over several orders with repair.
//
// Offline dynamic storage allocation is NP-complete (Garey and Johnson 1979, SR2). A training step is nearly a
// stack: what the forward part makes, the backward part frees in reverse. So the first try goes through time, long-lived
// blocks from the bottom and short-lived ones from the top of a fixed height. What it leaves is for the second: blocks
// in an order (large first leaves small holes for small blocks), each in the tightest hole; those that end above the
// peak go to the front of the order, which settles contention where it is. Work, not time, bounds the search, so that
// the result is the same on every machine.

#include "passes/place.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

namespace isthmus {
namespace {

constexpr int64_t kMostWork = 30'000'000; // blocks looked at, in all
constexpr double kCloseEnough = 1.0005;   // stop at this multiple of the peak

// --- Through time

class Timeline {
public:
  explicit Timeline(std::vector<Block> &blocks) : blocks_(blocks), byStart_(blocks.size()), byEnd_(blocks.size()) {
    for (uint32_t i = 0; i < blocks.size(); ++i)
      byStart_[i] = byEnd_[i] = i;
    llvm::stable_sort(byStart_, [&](uint32_t a, uint32_t b) { return blocks[a].first < blocks[b].first; });
    llvm::stable_sort(byEnd_, [&](uint32_t a, uint32_t b) { return blocks[a].last < blocks[b].last; });
  }

  // Blocks that live longer than `longLife` steps take the lowest hole, others the highest below `height`; what
  // finds none goes on top.
  int64_t place(uint32_t longLife, int64_t height) {
    holes_ = {{0, INT64_MAX}};
    int64_t top = 0;
    size_t freed = 0;
    for (uint32_t i : byStart_) {
      Block &b = blocks_[i];
      for (; blocks_[byEnd_[freed]].last < b.first; ++freed)
        release(blocks_[byEnd_[freed]]);
      b.offset = b.last - b.first > longLife ? lowest(b.bytes) : highest(b.bytes, height);
      take(b);
      top = std::max(top, b.offset + b.bytes);
    }
    return top;
  }

private:
  int64_t lowest(int64_t bytes) const {
    for (auto [from, to] : holes_)
      if (to - from >= bytes)
        return from;
    return 0; // not reached: the last hole has no end
  }

  int64_t highest(int64_t bytes, int64_t height) const {
    for (auto it = holes_.rbegin(); it != holes_.rend(); ++it)
      if (std::min(it->second, height) - it->first >= bytes)
        return std::min(it->second, height) - bytes;
    return lowest(bytes);
  }

  void take(const Block &b) {
    auto hole = std::prev(holes_.upper_bound(b.offset));
    auto [from, to] = *hole;
    holes_.erase(hole);
    if (from < b.offset)
      holes_[from] = b.offset;
    if (b.offset + b.bytes < to)
      holes_[b.offset + b.bytes] = to;
  }

  void release(const Block &b) {
    int64_t from = b.offset, to = b.offset + b.bytes;
    auto next = holes_.lower_bound(from);
    if (next != holes_.end() && next->first == to) {
      to = next->second;
      next = holes_.erase(next);
    }
    if (next != holes_.begin() && std::prev(next)->second == from) {
      from = std::prev(next)->first;
      holes_.erase(std::prev(next));
    }
    holes_[from] = to;
  }

  std::vector<Block> &blocks_;
  std::vector<uint32_t> byStart_, byEnd_;
  std::map<int64_t, int64_t> holes_; // start to end; few, since neighbours are merged
};

// --- In an order

class Ordered {
public:
  explicit Ordered(std::vector<Block> &blocks) : blocks_(blocks) {
    // Placing a block looks at the time buckets of its own lifetime only.
    uint32_t end = 0;
    for (const Block &b : blocks_)
      end = std::max(end, b.last);
    bucketSteps_ = end / kBuckets + 1;
  }

  int64_t place(const std::vector<uint32_t> &order) {
    buckets_.assign(kBuckets + 1, {});
    seen_.assign(blocks_.size(), 0);
    stamp_ = 0;
    int64_t top = 0;
    for (uint32_t i : order)
      top = std::max(top, placeOne(i));
    return top;
  }

  int64_t work() const { return work_; }

private:
  static constexpr uint32_t kBuckets = 256;

  int64_t placeOne(uint32_t index) {
    Block &b = blocks_[index];
    ++stamp_;
    near_.clear();
    for (uint32_t k = b.first / bucketSteps_; k <= b.last / bucketSteps_; ++k) {
      work_ += int64_t(buckets_[k].size());
      for (uint32_t other : buckets_[k]) {
        const Block &o = blocks_[other];
        if (seen_[other] == stamp_ || o.first > b.last || o.last < b.first)
          continue;
        seen_[other] = stamp_;
        near_.emplace_back(o.offset, o.offset + o.bytes);
      }
      buckets_[k].push_back(index);
    }
    llvm::sort(near_);
    work_ += 8 * int64_t(near_.size());
    // The tightest hole that takes it, else the top.
    int64_t best = -1, bestSize = INT64_MAX, at = 0;
    for (auto [from, to] : near_) {
      if (from - at >= b.bytes && from - at < bestSize) {
        best = at;
        bestSize = from - at;
      }
      at = std::max(at, to);
    }
    b.offset = best >= 0 ? best : at;
    return b.offset + b.bytes;
  }

  std::vector<Block> &blocks_;
  uint32_t bucketSteps_;
  std::vector<std::vector<uint32_t>> buckets_;
  std::vector<uint32_t> seen_;
  uint32_t stamp_ = 0;
  std::vector<std::pair<int64_t, int64_t>> near_;
  int64_t work_ = 0;
};

using Key = double (*)(const Block &);
constexpr Key kKeys[] = {
    [](const Block &b) { return double(b.bytes); },
    [](const Block &b) { return double(b.bytes) * (1.0 + b.last - b.first); },
    [](const Block &b) { return double(b.last - b.first); },
};

// The best placement met so far.
class Best {
public:
  explicit Best(std::vector<Block> &blocks) : blocks_(blocks) {}
  void offer(int64_t top) {
    if (top >= least)
      return;
    least = top;
    offsets_.clear();
    for (const Block &b : blocks_)
      offsets_.push_back(b.offset);
  }
  int64_t restore() {
    for (size_t i = 0; i < blocks_.size(); ++i)
      blocks_[i].offset = offsets_[i];
    return least;
  }
  int64_t least = INT64_MAX;

private:
  std::vector<Block> &blocks_;
  std::vector<int64_t> offsets_;
};

} // namespace

int64_t pack(std::vector<Block> &blocks, int64_t peak) {
  if (blocks.empty())
    return 0;
  const double enough = double(peak) * kCloseEnough;
  Best best(blocks);
  uint32_t steps = 0;
  for (const Block &b : blocks)
    steps = std::max(steps, b.last);
  Timeline timeline(blocks);
  for (uint32_t share : {10u, 200u, 1000u, 50u, 3u, 0u}) {
    best.offer(timeline.place(share ? steps / share : 0, peak));
    if (double(best.least) <= enough)
      return best.restore();
  }

  Ordered ordered(blocks);
  std::vector<uint32_t> order(blocks.size());
  for (size_t k = 0; k < std::size(kKeys) && double(best.least) > enough && ordered.work() < kMostWork; ++k) {
    for (uint32_t i = 0; i < order.size(); ++i)
      order[i] = i;
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return kKeys[k](blocks[a]) > kKeys[k](blocks[b]); });
    int64_t share = kMostWork * int64_t(k + 1) / int64_t(std::size(kKeys));
    do {
      best.offer(ordered.place(order));
      std::stable_partition(order.begin(), order.end(),
                            [&](uint32_t i) { return blocks[i].offset + blocks[i].bytes > peak; });
    } while (double(best.least) > enough && ordered.work() < share);
  }
  return best.restore();
}

} // namespace isthmus
