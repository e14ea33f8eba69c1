#include "tools/view/curve.h"

#include "passes/compile/figures_json.h"
#include "passes/plan/problem.h"
#include <algorithm>

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

struct Point {
  int64_t peakBytes;
  double added; // a share of the step's time without a plan
  const char *what;
};

std::vector<Point> pointsOf(const Figures &f, const std::vector<plan::PricePoint> &others) {
  std::vector<Point> all = {{f.baselinePeakBytes, 0, "no plan"}};
  if (f.predictedPeakBytes != f.baselinePeakBytes)
    all.push_back({f.predictedPeakBytes, f.recomputeOverhead, "this plan"});
  if (f.knee)
    all.push_back(
        {f.knee->at.peakBytes, plan::overhead(f.knee->at.cost, f.baselineCost), "the knee"});
  if (f.smallestBudgetBytes && f.smallestBudgetOverhead)
    all.push_back({*f.smallestBudgetBytes, *f.smallestBudgetOverhead, "the smallest budget"});
  auto isBeaten = [&](const Point &other) {
    return std::any_of(all.begin(), all.end(), [&](const Point &p) {
      return p.peakBytes <= other.peakBytes && p.added <= other.added;
    });
  };
  for (const plan::PricePoint &p : others)
    if (const Point other = {p.peakBytes, plan::overhead(p.cost, f.baselineCost), ""};
        !isBeaten(other))
      all.push_back(other);
  std::stable_sort(all.begin(), all.end(),
                   [](const Point &a, const Point &b) { return a.peakBytes > b.peakBytes; });
  return all;
}

} // namespace

void addCurve(Page &page, const Figures &f, const std::vector<plan::PricePoint> &others) {
  page.facts["knee"] = kneeJson(f);
  page.facts["curve"] = Json::array();
  for (const Point &p : pointsOf(f, others))
    page.facts["curve"].push_back(
        {{"peak_bytes", p.peakBytes}, {"added", jsonNumber(p.added)}, {"what", p.what}});
}

} // namespace isthmus
