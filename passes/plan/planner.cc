#include "passes/plan/planner.h"

#include "passes/plan/bound.h"
#include "passes/plan/search.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// One unit of effort; measured: a second of a core, more or less.
constexpr double kWorkPerEffort = 3e7;

class Planner {
public:
  Planner(const Problem &p, const PlanOptions &o)
      : p_(p), o_(o), g_(p), effort_(o.effort > 0 ? o.effort : defaultEffort(g_.ops.size())) {}

  PlanResult run() {
    result_.baseline = evaluate(p_, sourceOrder(p_));
    result_.lowestPeak = lowestPeak(p_);
    take(inSourceOrder());
    bool isEnough = result_.planned.peakBytes <= o_.budgetBytes;
    if (!o_.smallest && (isEnough || search()))
      result_.isWithin = result_.planned.peakBytes <= o_.budgetBytes;
    if (!result_.isWithin)
      searchSmallest();
    return std::move(result_);
  }

private:
  bool mayReorder() const { return p_.order == Order::Free; }
  uint64_t allWork() const { return static_cast<uint64_t>(effort_ * kWorkPerEffort); }

  std::vector<uint32_t> inSourceOrder() const {
    std::vector<uint32_t> ops(g_.ops.size());
    for (uint32_t i = 0; i < ops.size(); ++i)
      ops[i] = i;
    return ops;
  }

  // (Where the order is fixed, views run in their places too, which may let their bases live longer
  // than the search thought: the judge has the last word.)
  void take(const std::vector<uint32_t> &ops) {
    result_.schedule = g_.scheduleOf(ops);
    result_.planned = evaluate(p_, result_.schedule);
  }

  Editor editor(int64_t budget, uint64_t stream) {
    Editor e(g_, budget, o_.seed * 1000 + stream, mayReorder());
    return e;
  }

  // From here on the editor's work counts for `share` of all.
  void follow(Editor &e, double share, uint64_t work) {
    double before = share_;
    share_ += share;
    uint64_t begin = e.work();
    e.goOn = [this, &e, before, share, begin, work] {
      double done = before + share * double(e.work() - begin) / double(std::max<uint64_t>(work, 1));
      if (o_.progress && !isStopped_)
        isStopped_ = !o_.progress({std::min(done, 1.0), bestCost_});
      return !isStopped_;
    };
  }

  // Starts of several kinds, each improved for a while; then the best of them for the rest.
  bool search() {
    struct Start {
      bool siblings;
      double noise, hot;
    };
    constexpr Start kStarts[] = {
        {false, 0, 0.01}, {true, 0, 0.05}, {true, 0.5, 0.2}, {false, 0.5, 1}};
    constexpr double kHot[] = {0.2, 0.05, 0.02, 0.01};
    constexpr size_t kSlices = std::size(kStarts) + std::size(kHot);
    Found best;
    uint64_t each = allWork() / kSlices;
    for (size_t i = 0; i < std::size(kStarts) && !isStopped_; ++i) {
      const Start &s = kStarts[i];
      Editor e = editor(o_.budgetBytes, i);
      follow(e, 1.0 / kSlices, each);
      uint64_t begin = e.work();
      descend(e, s.siblings, s.noise, begin + each / 2);
      Found found;
      anneal(e, s.hot, begin + each, found);
      if (found.cost < best.cost)
        best = std::move(found);
      bestCost_ = best.ops.empty() ? 0 : best.cost;
    }
    if (best.ops.empty())
      return false;
    for (size_t i = 0; i < std::size(kHot) && !isStopped_; ++i) {
      Editor e = editor(o_.budgetBytes, 100 + i);
      e.assign(best.ops);
      follow(e, 1.0 / kSlices, each);
      anneal(e, kHot[i], e.work() + each, best);
      bestCost_ = best.cost;
    }
    take(best.ops);
    return true;
  }

  // Lowers the budget step by step, each time from where the last one was met; smaller steps after
  // each that was not. Does not depend on the budget asked for, so that what it finds is found
  // again when it is asked for.
  void searchSmallest() {
    share_ = 0;
    Editor e = editor(result_.baseline.peakBytes, 200);
    follow(e, 0.5, allWork());
    std::vector<uint32_t> least = inSourceOrder();
    int64_t leastPeak = e.timeline().peak();
    uint64_t begin = e.work(), all = allWork();
    double step = 0.1;
    while (e.work() < begin + all && step > 1e-4 && leastPeak > result_.lowestPeak && !isStopped_) {
      int64_t target = std::max(result_.lowestPeak, int64_t(double(leastPeak) * (1 - step)));
      e.setBudget(target);
      uint64_t slice = e.work() + all / 24;
      descend(e, /*siblings=*/false, 0, slice);
      Found found;
      if (!e.fits())
        annealDown(e, slice);
      found.offer(e);
      if (found.ops.empty()) {
        step /= 2;
        e.assign(least);
      } else {
        leastPeak = e.timeline().peak();
        least = std::move(found.ops);
      }
    }
    take(least);
    result_.smallestPeak = result_.planned.peakBytes;
    result_.isWithin = o_.smallest || result_.smallestPeak <= o_.budgetBytes;
    if (!o_.smallest && !result_.isWithin)
      return;
    // The cost, at that peak or the budget.
    Found best;
    Editor better = editor(o_.smallest ? result_.smallestPeak : o_.budgetBytes, 300);
    better.assign(least);
    follow(better, 0.5, all);
    anneal(better, 0.05, better.work() + all, best);
    if (!best.ops.empty())
      take(best.ops);
    if (result_.planned.peakBytes > better.budget())
      take(least);
  }

  const Problem &p_;
  const PlanOptions &o_;
  StorageGraph g_;
  double effort_;
  bool isStopped_ = false;
  double share_ = 0, bestCost_ = 0;
  PlanResult result_;
};

} // namespace

// 2 up to 400 ops, 5 at 4,000, 10 at 10,000, 60 at 100,000; in between along straight lines of the
// logarithms.
double defaultEffort(size_t numOps) {
  constexpr double kPoints[][2] = {{400, 2}, {4000, 5}, {10000, 10}, {100000, 60}};
  double n = double(numOps);
  if (n <= kPoints[0][0])
    return kPoints[0][1];
  for (size_t i = 1; i < std::size(kPoints); ++i)
    if (n <= kPoints[i][0] || i + 1 == std::size(kPoints)) {
      const auto &[n0, e0] = kPoints[i - 1];
      const auto &[n1, e1] = kPoints[i];
      return e0 * std::pow(e1 / e0, std::log(n / n0) / std::log(n1 / n0));
    }
  return 0;
}

PlanResult planWithin(const Problem &p, const PlanOptions &options) {
  return Planner(p, options).run();
}

} // namespace isthmus::plan
