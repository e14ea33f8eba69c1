#include "passes/plan/knee.h"

#include "passes/plan/peak_search.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

double perByte(const PricePoint &more, const PricePoint &less) {
  return (less.cost - more.cost) / double(more.peakBytes - less.peakBytes);
}

// From the highest peak down: the points below which no straight line between two others lies.
std::vector<PricePoint> hullOf(std::vector<PricePoint> curve) {
  std::sort(curve.begin(), curve.end(), [](const PricePoint &a, const PricePoint &b) {
    return a.peakBytes != b.peakBytes ? a.peakBytes > b.peakBytes : a.cost < b.cost;
  });
  std::vector<PricePoint> hull;
  for (const PricePoint &p : curve) {
    if (!hull.empty() && p.peakBytes == hull.back().peakBytes)
      continue;
    // (A lower peak at a lower cost makes a slope that is negative, which ends here too.)
    while (hull.size() > 1 && perByte(hull.end()[-2], hull.back()) >= perByte(hull.back(), p))
      hull.pop_back();
    hull.push_back(p);
  }
  return hull;
}

} // namespace

std::optional<Knee> kneeOf(std::vector<PricePoint> curve) {
  constexpr double kBend = 2, kNothing = 1e-3;
  const std::vector<PricePoint> hull = hullOf(std::move(curve));
  if (hull.size() < 3)
    return std::nullopt;
  const auto cheapest = std::ranges::min_element(hull, {}, &PricePoint::cost);
  if (hull.back().cost <= (1 + kNothing) * cheapest->cost)
    return std::nullopt;
  const double average = perByte(hull.front(), hull.back());
  auto isCheap = [&](size_t i) { return perByte(hull[i - 1], hull[i]) < average; };
  size_t last = 0; // of the points that are reached at less than the average price
  while (last + 1 < hull.size() && isCheap(last + 1))
    ++last;
  if (last == 0 || last + 1 == hull.size())
    return std::nullopt;
  // A plan may also cost less than no recomputation, if only by the last bits of a sum.
  const Knee knee{hull[last], std::max(0.0, perByte(hull.front(), hull[last])),
                  perByte(hull[last], hull.back())};
  return knee.below < kBend * knee.above ? std::nullopt : std::optional(knee);
}

constexpr double kDownShare = 0.2;

std::optional<Knee> findKnee(const Problem &p, const SearchOptions &options,
                             const PlanResult &known) {
  const double most = (1 + options.mostAdded) * known.baseline.cost;
  SearchRun run(p, options, hasAlternatives(p));
  PeakSearch search(run);
  std::vector<PricePoint> curve = {{known.baseline.peakBytes, known.baseline.cost}};
  for (const Found &f : search.falling(most))
    curve.push_back({f.peak, f.cost});
  if (known.arenaBytes == known.smallestBytes)
    curve.push_back({known.planned.peakBytes, known.planned.cost});
  else // the curve ends where that of a budget that cannot be met does, so that the knees agree
    for (const Found &f : search.down(kDownShare, 0))
      curve.push_back({f.peak, f.cost});
  std::erase_if(curve, [&](const PricePoint &point) { return point.cost > most; });
  return run.isStopped() ? std::nullopt : kneeOf(std::move(curve));
}

} // namespace isthmus::plan
