// Packing: the searches in turn, until one reaches the peak.
//
// Offline dynamic storage allocation is NP-complete (Garey and Johnson 1979, SR2), and in some
// instances no placement reaches the peak; then the searches spend all their work.

#include "passes/pack_search.h"

namespace isthmus {
namespace {

// A second is about 2e8. Small arenas matter less.
int64_t mostWork(int64_t blocks, int64_t peak) {
  int64_t most = std::min(400'000 * blocks, 60'000'000 + 40'000 * blocks);
  return peak <= 1 << 20 ? most / 10 : most;
}

constexpr size_t kMostInOrder = 400;         // blocks
constexpr int64_t kLastEffort = 500'000'000; // work; two or three seconds

} // namespace

int64_t pack(std::vector<Block> &blocks, int64_t peak) {
  if (blocks.empty())
    return 0;
  Packing p(blocks, peak);
  const int64_t most = mostWork(static_cast<int64_t>(blocks.size()), peak);
  const bool small = blocks.size() <= kMostInOrder;
  packOutward(p, small ? most / 2 : most);
  if (!p.solved() && small)
    packInOrder(p, most);
  // A last effort where one percent is at stake. The search over orders lists all pairs of blocks
  // that meet, so it is for small instances only.
  if (small && peak > 1 << 20 && double(p.least) > 1.01 * double(peak))
    packInOrder(p, most + kLastEffort);
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i].offset = p.best[i];
  return p.least;
}

} // namespace isthmus
