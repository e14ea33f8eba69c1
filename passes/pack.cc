// Packing: first fit over several orders, then repair of the order where the top sticks out.
//
// Offline dynamic storage allocation is NP-complete (Garey and Johnson 1979, SR2). Large blocks first leaves
// small holes for small blocks; a block that ends above the peak in spite of that is moved to the
// front of the order and everything is placed again, which settles contention where it is.

#include "passes/place.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace isthmus {
namespace {

class Packer {
public:
  explicit Packer(std::vector<Block> &blocks) : blocks_(blocks) {
    // Blocks that are alive together, by time buckets: placing one looks only at its own lifetime's buckets.
    uint32_t end = 0;
    for (const Block &b : blocks_)
      end = std::max(end, b.last);
    bucketSteps_ = std::max<uint32_t>(1, end / kBuckets + 1);
  }

  int64_t place(const std::vector<uint32_t> &order) {
    buckets_.assign(kBuckets + 1, {});
    seen_.assign(blocks_.size(), 0);
    int64_t top = 0;
    for (uint32_t i : order)
      top = std::max(top, placeOne(i));
    return top;
  }

private:
  static constexpr uint32_t kBuckets = 512;

  int64_t placeOne(uint32_t index) {
    Block &b = blocks_[index];
    ++stamp_;
    near_.clear();
    for (uint32_t k = b.first / bucketSteps_; k <= b.last / bucketSteps_; ++k)
      for (uint32_t other : buckets_[k]) {
        const Block &o = blocks_[other];
        if (seen_[other] == stamp_ || o.first > b.last || o.last < b.first)
          continue;
        seen_[other] = stamp_;
        near_.emplace_back(o.offset, o.offset + o.bytes);
      }
    llvm::sort(near_);
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
    for (uint32_t k = b.first / bucketSteps_; k <= b.last / bucketSteps_; ++k)
      buckets_[k].push_back(index);
    return b.offset + b.bytes;
  }

  std::vector<Block> &blocks_;
  uint32_t bucketSteps_;
  std::vector<std::vector<uint32_t>> buckets_;
  std::vector<uint32_t> seen_;
  uint32_t stamp_ = 0;
  std::vector<std::pair<int64_t, int64_t>> near_;
};

using Key = double (*)(const Block &);
constexpr Key kKeys[] = {
    [](const Block &b) { return double(b.bytes); },
    [](const Block &b) { return double(b.bytes) * (1.0 + b.last - b.first); },
    [](const Block &b) { return double(b.last - b.first); },
    [](const Block &b) { return -double(b.first); },
};

} // namespace

int64_t pack(std::vector<Block> &blocks, int64_t peak) {
  Packer packer(blocks);
  std::vector<Block> best;
  int64_t least = INT64_MAX;
  auto keep = [&](int64_t top) {
    if (top < least) {
      least = top;
      best = blocks;
    }
    return least <= peak;
  };

  std::vector<uint32_t> start(blocks.size());
  for (uint32_t i = 0; i < start.size(); ++i)
    start[i] = i;
  // Work, not time, bounds the search, so that the result is the same on every machine.
  const int64_t rounds = std::clamp<int64_t>(100000 / std::max<int64_t>(1, int64_t(blocks.size())), 4, 100);
  for (Key key : kKeys) {
    std::vector<uint32_t> order = start;
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return key(blocks[a]) > key(blocks[b]); });
    for (int64_t round = 0; round < rounds; ++round) {
      if (keep(packer.place(order))) {
        blocks = best;
        return least;
      }
      // What sticks out goes first next time.
      auto inside = [&](uint32_t i) { return blocks[i].offset + blocks[i].bytes <= peak; };
      std::stable_partition(order.begin(), order.end(), [&](uint32_t i) { return !inside(i); });
    }
  }
  blocks = best;
  return least == INT64_MAX ? 0 : least;
}

} // namespace isthmus
