// Offset assignment: the searches in turn, until one reaches the peak.
//
// Offline dynamic storage allocation is NP-complete (Garey and Johnson 1979, SR2), and in some
// instances no placement reaches the peak; then the searches spend all their work, unless the exact
// one proves that none is lower than the best.

#include "ir/check.h"
#include "passes/place/offset_search.h"

namespace isthmus {
namespace {

constexpr double kWorkPerEffort = 1e8; // measured: about a second
constexpr int64_t kLastEffort = 5;     // times the first

// Small arenas matter less. With very many buffers one filling takes most of this, and a few are
// enough.
double defaultEffort(double buffers, int64_t peak) {
  double effort = std::min({2e-3 * buffers, 0.3 + 2e-4 * buffers, 0.9 + 1e-5 * buffers});
  return peak <= 1 << 20 ? std::max(0.01, effort / 10) : effort;
}

int64_t workOf(double effort) {
  constexpr double kMost = 1e17; // sums of a few stay within 64 bits
  return static_cast<int64_t>(std::min(effort * kWorkPerEffort, kMost));
}

// With more buffers than this, an arena that exceeds the peak by this share is enough, unless the
// caller says what is enough.
constexpr size_t kMany = 10'000;
constexpr int64_t kCloseShare = 1000;

// With no more buffers than this, the exact search does better than ejections; with more,
// ejections do better than both others, except where nearly all sizes differ. With more than the
// second number they do no better than fillings (some fifty placements of recurrent networks,
// transformers and ResNets with 6,000 to 25,000 buffers).
constexpr size_t kFew = 1500, kManyForEjections = 5000;
// Of a turn, in quarters.
struct Shares {
  int64_t fillings, exact, ejections;
};
constexpr Shares kOfFew = {4, 12, 1}, kOfMany = {1, 0, 4};
// With so many, a search that does not come nearer to what is enough by the first share ends after
// half as much work again as it took to come there, and a part of the usual work.
constexpr double kNearer = 0.25, kMoreWork = 1.5;
constexpr int64_t kPart = 4;

// Buffers of one size reach the peak in the order of time, however many they are (the left-edge
// algorithm; Hashimoto and Stevens 1971). This counts as no work, so that it changes no search.
bool reachPeakInTime(OffsetAssignment &p) {
  std::vector<int64_t> offsets(p.buffers.size());
  const bool isReached = placeInTime(p, offsets, p.peak);
  if (isReached)
    p.offer(offsets);
  return isReached;
}

// Likewise without counting as work: a placement that costs little, and now and then suffices.
void offerBySize(OffsetAssignment &p) {
  std::vector<int64_t> offsets(p.buffers.size(), kUnplaced);
  const int64_t work = p.work;
  if (placeBySize(p, offsets))
    p.offer(offsets);
  p.work = work;
}

// The searches take turns that grow. What is done first does not depend on how much may be done, so
// that more work never gives a larger arena. `most` is asked for the work that may be done.
template <typename Most> void takeTurns(OffsetAssignment &p, int64_t enough, Most most) {
  const int64_t usual = workOf(defaultEffort(double(p.buffers.size()), p.peak));
  const bool areFew = p.buffers.size() <= kFew;
  skylineSearch(p, p.peak)->run(usual / (areFew ? 8 : 14),
                                most()); // a smaller arena than `enough` is better
  auto skyline = skylineSearch(p, enough), valleys = valleySearch(p, enough),
       ejections = ejectionSearch(p, enough);
  auto isDone = [&] {
    return p.mayEnd() || p.least <= std::max(enough, p.bound) || p.work >= most();
  };
  const Shares &of = areFew ? kOfFew : kOfMany;
  for (int64_t quarter = usual / 64; !isDone(); quarter *= 2) {
    skyline->run(of.fillings * quarter, most());
    if (p.least == INT64_MAX)
      return;
    if (of.exact > 0 && !isDone())
      valleys->run(of.exact * quarter, most());
    if (!isDone())
      ejections->run(of.ejections * quarter, most());
  }
}

// The same with very many buffers: fillings of the skyline only, while they come nearer.
template <typename Most> void fillOften(OffsetAssignment &p, int64_t enough, Most most) {
  const int64_t usual = workOf(defaultEffort(double(p.buffers.size()), p.peak));
  skylineSearch(p, p.peak)->run(usual / 14, most());
  auto skyline = skylineSearch(p, enough);
  const int64_t wanted = std::max(enough, p.bound);
  int64_t near = p.least, until = 0; // `near`: the last arena that was much nearer
  for (int64_t turn = usual / 6; !p.mayEnd() && p.least > wanted; turn *= 2) {
    if (near - p.least >= int64_t(kNearer * double(near - wanted)) || until == 0) {
      near = p.least;
      until = int64_t(kMoreWork * double(p.work)) + usual / kPart;
    }
    if (p.work >= std::min(until, most()))
      return;
    skyline->run(std::min(turn, until - p.work), most());
  }
}

} // namespace

int64_t assignOffsets(std::vector<Buffer> &buffers, int64_t peak, const OffsetOptions &o) {
  if (buffers.empty())
    return 0;
  OffsetAssignment p(buffers, peak, o.goOn);
  const bool isLarge = buffers.size() > kMany;
  const int64_t close = isLarge && o.enough == 0 ? peak / kCloseShare : 0;
  const int64_t enough = std::max(peak + close, o.enough);
  auto most = [&] {
    if (o.effort > 0)
      return workOf(o.effort);
    // More if half a percent is at stake.
    const bool isMore = !isLarge && peak > 1 << 20 && double(p.least) > 1.005 * double(enough);
    return (isMore ? kLastEffort : 1) * workOf(defaultEffort(double(buffers.size()), peak));
  };
  if (!reachPeakInTime(p))
    offerBySize(p);
  if (p.least > p.bound && buffers.size() > kManyForEjections)
    fillOften(p, enough, most);
  else if (p.least > p.bound)
    takeTurns(p, enough, most);
  if (p.least == INT64_MAX)
    return p.least;
  for (size_t i = 0; i < buffers.size(); ++i) {
    ISTHMUS_CHECK(p.best[i] % p.unit == 0, "an offset that is not aligned as the sizes are");
    buffers[i].offset = p.best[i];
  }
  return p.least;
}

} // namespace isthmus
