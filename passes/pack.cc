// Packing: the searches in turn, until one reaches the peak.
//
// Offline dynamic storage allocation is NP-complete (Garey and Johnson 1979, SR2), and in some
// instances no placement reaches the peak; then the searches spend all their work.

#include "passes/pack_search.h"

namespace isthmus {
namespace {

constexpr double kWorkPerEffort = 1e8; // measured: about a second

constexpr int64_t kLastEffort = 8; // times the first

// Small arenas matter less.
double defaultEffort(double blocks, int64_t peak) {
  double effort = std::min(2e-3 * blocks, 0.3 + 2e-4 * blocks);
  return peak <= 1 << 20 ? std::max(0.01, effort / 10) : effort;
}

} // namespace

int64_t pack(std::vector<Block> &blocks, int64_t peak, const PackOptions &o) {
  if (blocks.empty())
    return 0;
  Packing p(blocks, peak);
  const double effort = o.effort > 0 ? o.effort : defaultEffort(double(blocks.size()), peak);
  const int64_t most = static_cast<int64_t>(effort * kWorkPerEffort);
  packOutward(p, most / 4);
  if (!p.solved())
    packGuided(p, std::max(peak, o.enough), most);
  // A last effort where one percent is at stake.
  if (o.effort == 0 && peak > 1 << 20 && double(p.least) > 1.01 * double(peak))
    packGuided(p, std::max(peak, o.enough), p.work + kLastEffort * most);
  for (size_t i = 0; i < blocks.size(); ++i)
    blocks[i].offset = p.best[i];
  return p.least;
}

} // namespace isthmus
