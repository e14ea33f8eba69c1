// Offset assignment: the searches in turn, until one reaches the peak.
//
// Offline dynamic storage allocation is NP-complete (Garey and Johnson 1979, SR2), and in some
// instances no placement reaches the peak; then the searches spend all their work.

#include "passes/place/offset_search.h"

namespace isthmus {
namespace {

constexpr double kWorkPerEffort = 1e8; // measured: about a second
constexpr int64_t kLastEffort = 4;     // times the first

// Small arenas matter less. With very many buffers one filling takes most of this, and a few are
// enough.
double defaultEffort(double buffers, int64_t peak) {
  double effort = std::min({2e-3 * buffers, 0.3 + 2e-4 * buffers, 0.9 + 1e-5 * buffers});
  return peak <= 1 << 20 ? std::max(0.01, effort / 10) : effort;
}

// With more buffers than this, an arena that exceeds the peak by this share is enough, unless the
// caller says what is enough.
constexpr size_t kMany = 10'000;
constexpr int64_t kCloseShare = 1000;

} // namespace

int64_t assignOffsets(std::vector<Buffer> &buffers, int64_t peak, const OffsetOptions &o) {
  if (buffers.empty())
    return 0;
  OffsetAssignment p(buffers, peak, o.goOn);
  const double effort = o.effort > 0 ? o.effort : defaultEffort(double(buffers.size()), peak);
  constexpr double kMost = 1e17; // sums of a few stay within 64 bits
  const auto most = static_cast<int64_t>(std::min(effort * kWorkPerEffort, kMost));
  const bool isLarge = buffers.size() > kMany;
  const int64_t close = isLarge && o.enough == 0 ? peak / kCloseShare : 0;
  const int64_t enough = std::max(peak + close, o.enough);
  auto search = [&](int64_t work) {
    searchSkyline(p, peak, p.work + work / 8); // a smaller arena than `enough` is better
    if (p.least > enough && !p.mayEnd())
      searchSkyline(p, enough, p.work + work / 2);
    if (p.least > enough && p.least < INT64_MAX && !p.isStopped())
      searchCanonical(p, enough, p.work + work / 2);
  };
  search(most);
  if (p.least == INT64_MAX)
    return p.least;
  // Searches once more if half a percent is at stake.
  if (o.effort == 0 && peak > 1 << 20 && !p.isStopped() && double(p.least) > 1.005 * double(enough))
    search(isLarge ? most : kLastEffort * most);
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].offset = p.best[i];
  return p.least;
}

} // namespace isthmus
