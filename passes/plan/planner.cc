#include "passes/plan/planner.h"

#include "passes/plan/bound.h"
#include "passes/plan/overhead_bound.h"
#include "passes/plan/search.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace isthmus::plan {
namespace {

// One unit of effort; measured: a second of a core, more or less.
constexpr double kWorkPerEffort = 3e7;
// A greedy descent has done its part after this much for each storage that might be dropped.
constexpr uint64_t kWorkDown = 12'000;

class Planner {
public:
  // With `known`, the problem's optional ops may be used, and what is known is a plan without.
  Planner(const Problem &p, const SearchOptions &o, const PlanResult *known = nullptr)
      : p_(p), o_(o), known_(known), g_(p, /*optional=*/known != nullptr),
        effort_(effortOf(o, g_.numDefault)) {}

  bool usesOptional() const { return g_.hasOptional(); }

  PlanResult run() {
    result_.baseline = evaluate(p_, sourceOrder(p_));
    result_.lowestPeak = known_ ? known_->lowestPeak : lowestPeak(p_);
    ordered_ = inGoodOrder();
    if (!o_.smallest)
      result_.isWithin =
          (!known_ && result_.baseline.peakBytes <= o_.budgetBytes && tryPlace(inSourceOrder())) ||
          search();
    if (!result_.isWithin)
      searchSmallest();
    if (result_.isWithin)
      bound();
    return std::move(result_);
  }

private:
  bool mayReorder() const { return p_.order == Order::Free; }
  // Of all the work allowed. (A share that is left is negative where the last search took more.)
  uint64_t work(double share) const {
    return static_cast<uint64_t>(std::max(share, 0.0) * effort_ * kWorkPerEffort);
  }

  // The source order, or a better one of the same ops.
  std::vector<uint32_t> inGoodOrder() {
    Editor e = editor(result_.baseline.peakBytes, 0);
    if (mayReorder())
      improveOrder(e);
    return e.timeline().peak() < result_.baseline.peakBytes ? e.timeline().ops() : inSourceOrder();
  }

  std::vector<uint32_t> inSourceOrder() const {
    std::vector<uint32_t> ops(g_.numDefault);
    for (uint32_t i = 0; i < ops.size(); ++i)
      ops[i] = i;
    return ops;
  }

  // --- Candidates
  struct Candidate {
    Schedule schedule;
    Evaluation judged;
    int64_t arenaBytes = 0;
  };

  // (Where the order is fixed, views run in their places too, which may let their bases live longer
  // than the search thought: the judge has the last word.)
  Candidate placed(const std::vector<uint32_t> &ops, int64_t enough = 0) const {
    Candidate c;
    c.schedule = g_.scheduleOf(ops);
    c.judged = evaluate(p_, c.schedule);
    if (known_ && !c.judged.error.empty())
      c.arenaBytes = INT64_MAX; // the judge has the last word
    else
      c.arenaBytes = o_.arenaOf ? o_.arenaOf(c.schedule, c.judged, enough) : c.judged.peakBytes;
    return c;
  }

  void take(Candidate c) {
    result_.schedule = std::move(c.schedule);
    result_.planned = std::move(c.judged);
    result_.arenaBytes = c.arenaBytes;
  }

  bool isWithin(const Candidate &c) const { return c.arenaBytes <= o_.budgetBytes; }

  // Takes it if its arena stays within the budget and it costs less than what was taken before;
  // false if it is not within.
  bool tryPlace(const std::vector<uint32_t> &ops) {
    Candidate c = placed(ops, o_.budgetBytes);
    bool ok = isWithin(c);
    if (ok && (result_.schedule.empty() || c.judged.cost < result_.planned.cost))
      take(c);
    last_ = std::move(c);
    return ok;
  }

  // --- Searching
  Editor editor(int64_t budget, uint64_t stream) {
    Editor e(g_, budget, o_.seed * 1000 + stream, mayReorder());
    return e;
  }

  // From here on the editor's work counts for `share` of all.
  void follow(Editor &e, double share) {
    double before = share_;
    share_ += share;
    uint64_t begin = e.work(), all = std::max<uint64_t>(work(share), 1);
    e.goOn = [this, &e, before, share, begin, all] {
      double done = before + share * double(e.work() - begin) / double(all);
      if (o_.progress && !isStopped_)
        isStopped_ = !o_.progress({std::min(done, 1.0), bestCost_});
      return !isStopped_;
    };
  }

  // From these ops on, at another budget.
  Found improved(const std::vector<uint32_t> &ops, int64_t budget, double hot, double share,
                 uint64_t stream) {
    Editor e = editor(budget, stream);
    e.assign(ops);
    follow(e, share);
    uint64_t begin = e.work();
    if (!e.fits())
      descend(e, /*siblings=*/false, 0, begin + work(share) / 2);
    Found found;
    anneal(e, hot, begin + work(share), found);
    return found;
  }

  // The plan that is known, where it is within the budget.
  Found known(int64_t budget) {
    Found found;
    if (!known_ || !known_->isWithin)
      return found;
    std::vector<uint32_t> indexOf(p_.ops.size(), ~0u), ops;
    for (uint32_t i = 0; i < g_.numDefault; ++i)
      indexOf[g_.ops[i].source] = i;
    for (OpIndex i : known_->schedule)
      if (indexOf[i] != ~0u)
        ops.push_back(indexOf[i]);
    Editor e = editor(budget, 400);
    e.assign(ops);
    found.offer(e);
    return found;
  }

  // Starts of several kinds, each improved for a while; then the best of them for the rest.
  Found searchPeak(int64_t budget, double share, uint64_t stream) {
    struct Start {
      bool ordered, siblings;
      double noise, hot;
    };
    constexpr Start kStarts[] = {{true, false, 0, 0.01},
                                 {false, true, 0, 0.05},
                                 {true, true, 0.5, 0.2},
                                 {false, false, 0.5, 1}};
    constexpr double kHot[] = {0.2, 0.05, 0.02, 0.01};
    double slice = share / double(std::size(kStarts) + std::size(kHot)), used = 0;
    Found best = known(budget);
    for (size_t i = 0; i < std::size(kStarts) && !isStopped_; ++i) {
      const Start &s = kStarts[i];
      Editor e = editor(budget, stream + i);
      if (s.ordered == (stream % 2 == 0))
        e.assign(ordered_);
      follow(e, slice);
      uint64_t begin = e.work();
      // On large graphs the first way down takes all that there is time for.
      uint64_t most = work(slice) / 2;
      if (i == 0)
        most = std::max(most, std::min(work(share) / 2, kWorkDown * e.candidates().size()));
      descend(e, s.siblings, s.noise, begin + most);
      Found found;
      anneal(e, s.hot, std::max(e.work(), begin) + work(slice) / 2, found);
      best.offer(std::move(found));
      bestCost_ = best.ops.empty() ? 0 : best.cost;
      used += double(e.work() - begin) / double(work(1));
      if (used > share / 3)
        break;
    }
    slice = (share - used) / double(std::size(kHot));
    for (size_t i = 0; i < std::size(kHot) && !isStopped_ && !best.ops.empty(); ++i) {
      best.offer(improved(best.ops, budget, kHot[i], slice, stream + 100 + i));
      bestCost_ = best.cost;
    }
    return best;
  }

  // Twice, from unlike starts: which one leads further is not known before. The cheaper plan is
  // placed first; one whose arena exceeds the budget is made tighter.
  bool search() {
    Found found[2];
    found[0] = searchPeak(o_.budgetBytes, 0.5, 0);
    if (!found[0].ops.empty())
      found[1] = searchPeak(o_.budgetBytes, 0.3, 501);
    if (found[0].isBetter(found[1].cost, found[1].peak))
      std::swap(found[0], found[1]);
    int steps = 12;
    for (Found &f : found) {
      const bool isCheaper = result_.schedule.empty() || f.cost < result_.planned.cost;
      if (!f.ops.empty() && isCheaper && !tryPlace(f.ops))
        tighten(std::move(f), std::exchange(steps, 6));
    }
    return !result_.schedule.empty();
  }

  // To lower peaks, from where it stands, in steps that grow, until it fits; from there on back up
  // by what room is left, since plans of much the same peak may lie better or worse, from the plan
  // that fits and the last that did not in turn; until little is left to gain.
  void tighten(Found now, int mostSteps) {
    constexpr double kShare = 0.03;
    const double enough = now.cost + 0.01 * (now.cost - result_.baseline.cost);
    int64_t peak = last_.judged.peakBytes, over = last_.arenaBytes - o_.budgetBytes;
    double reach = 1;
    Found within;
    for (int i = 0; i < mostSteps && within.cost > enough && !isStopped_; ++i) {
      const bool isFound = !within.ops.empty();
      const int64_t room = o_.budgetBytes - result_.arenaBytes;
      const int64_t less = std::max(int64_t(double(over) * (0.5 + 0.2 * i)), p_.alignment);
      const int64_t target = isFound ? within.peak + int64_t(reach * double(room)) : peak - less;
      const Found &from = isFound && i % 2 == 0 ? within : now;
      Found next = improved(from.ops, target, 0.02, kShare, 400 + uint64_t(i));
      const bool isWorse = !result_.schedule.empty() && next.cost >= result_.planned.cost;
      if (next.ops.empty() || (isWorse && !isFound))
        break;
      if (isWorse)
        continue;
      if (tryPlace(next.ops)) {
        within = std::move(next);
        continue;
      }
      reach /= 2;
      if (!isFound) {
        peak = std::min(target, last_.judged.peakBytes);
        over = std::min(over, last_.arenaBytes - o_.budgetBytes);
        reach = 1;
        now = std::move(next);
      }
    }
  }

  // Lowers the peak step by step, each time from where the last one was met, or else, where steps
  // are large, from the beginning; smaller steps after each that was not. Then all again, with
  // other choices.
  std::vector<uint32_t> searchLeastPeak(double share) {
    constexpr double kFarStep = 0.02, kLeastStep = 1e-3;
    Editor e = editor(result_.baseline.peakBytes, 200);
    follow(e, share);
    e.assign(ordered_);
    std::vector<uint32_t> least = ordered_;
    const int64_t firstPeak = result_.baseline.peakBytes;
    int64_t leastPeak = e.timeline().peak();
    const uint64_t all = work(share), until = e.work() + all;
    double noise = 0;
    auto lower = [&](const std::vector<uint32_t> &from, bool siblings, int64_t target,
                     uint64_t most) {
      most += e.work();
      e.setBudget(target);
      e.assign(from);
      descend(e, siblings, noise, most);
      if (!e.fits())
        annealDown(e, most);
      if (e.timeline().peak() < leastPeak) {
        leastPeak = e.timeline().peak();
        least = e.timeline().ops();
      }
      return e.fits();
    };
    auto isDone = [&] {
      return e.work() >= until || leastPeak <= result_.lowestPeak || isStopped_;
    };
    // What is far off is better reached in one go than step by step.
    const double ofBound = double(result_.lowestPeak) / double(firstPeak);
    lower(ordered_, false, int64_t(double(firstPeak) * std::pow(ofBound, 0.75)),
          std::min(all / 3, kWorkDown * e.candidates().size()));
    for (; !isDone(); noise = 0.5)
      for (double step = 0.1; step > kLeastStep && !isDone();) {
        const uint64_t slice = std::max<uint64_t>(all / 24, 1);
        const int64_t target =
            std::max(result_.lowestPeak, int64_t(double(leastPeak) * (1 - step)));
        bool ok = lower(least, false, target, slice);
        if (!ok && step > kFarStep)
          ok = lower(ordered_, false, target, slice) || lower(inSourceOrder(), true, target, slice);
        if (!ok)
          step /= 2;
      }
    return least;
  }

  // The least arena: of plans at the least peak and a little above it, which may lie better. Does
  // not depend on the budget asked for, so that what it finds is found again when it is asked for.
  void searchSmallest() {
    share_ = 0;
    std::vector<uint32_t> ops = searchLeastPeak(0.7);
    Candidate least = placed(ops);
    const int64_t leastPeak = least.judged.peakBytes;
    std::vector<Candidate> all;
    for (double above : {0.0, 0.01, 0.03}) {
      int64_t budget = leastPeak + int64_t(above * double(leastPeak));
      if (least.arenaBytes < budget)
        break;
      Found found = improved(ops, budget, 0.05, 0.07, 300 + all.size());
      if (found.ops.empty())
        continue;
      all.push_back(placed(found.ops));
      const Candidate &c = all.back();
      if (std::pair(c.arenaBytes, c.judged.cost) < std::pair(least.arenaBytes, least.judged.cost))
        least = c;
    }
    result_.smallestBytes = least.arenaBytes;
    result_.isWithin = o_.smallest || isWithin(least);
    take(std::move(least));
    if (o_.smallest || !result_.isWithin)
      return;
    for (Candidate &c : all)
      if (isWithin(c) && c.judged.cost < result_.planned.cost)
        take(std::move(c));
    for (double part : {1.0, 0.5}) {
      int64_t room = int64_t(part * double(o_.budgetBytes - result_.smallestBytes));
      Found found = improved(ops, leastPeak + room, 0.05, 0.1, 310);
      if (!found.ops.empty() && tryPlace(found.ops))
        break;
    }
  }

  void bound() {
    constexpr double kBoundShare = 0.2;
    const int64_t budget = o_.smallest ? result_.arenaBytes : o_.budgetBytes;
    const double cost = result_.planned.cost;
    if (hasAlternatives(p_)) {
      result_.leastCost = leastCostAtAll(p_);
      return;
    }
    OverheadBound b = leastCost(p_, result_.schedule, budget, cost, work(kBoundShare));
    result_.leastCost = std::min(b.cost, cost); // they sum in another order
    result_.pricePerByte = b.pricePerByte;
  }

  const Problem &p_;
  const SearchOptions &o_;
  const PlanResult *known_;
  StorageGraph g_;
  double effort_;
  std::vector<uint32_t> ordered_;
  bool isStopped_ = false;
  double share_ = 0, bestCost_ = 0;
  Candidate last_; // that was tried
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

double effortOf(const SearchOptions &o, size_t numOps) {
  return o.effort > 0 ? o.effort : defaultEffort(numOps);
}

// Of two searches for the same.
static PlanResult better(PlanResult a, PlanResult b, bool smallest) {
  const bool isSecond =
      a.isWithin && b.isWithin && !smallest
          ? std::pair(b.planned.cost, b.arenaBytes) < std::pair(a.planned.cost, a.arenaBytes)
      : a.isWithin != b.isWithin
          ? b.isWithin
          : std::pair(b.arenaBytes, b.planned.cost) < std::pair(a.arenaBytes, a.planned.cost);
  return isSecond ? b : a;
}

#ifndef NDEBUG
// Whether a plan is what it says, by the judge.
static bool isAsClaimed(const Problem &p, const SearchOptions &o, const PlanResult &r) {
  Evaluation judged = evaluate(p, r.schedule);
  if (!judged.error.empty())
    return false;
  bool isPlaced = r.arenaBytes != 0 || judged.peakBytes == 0; // `arenaOf` may have failed
  return judged.peakBytes == r.planned.peakBytes && judged.cost == r.planned.cost &&
         r.lowestPeak <= judged.peakBytes && (!isPlaced || r.arenaBytes >= judged.peakBytes) &&
         (o.smallest || r.isWithin == (r.arenaBytes <= o.budgetBytes));
}
#endif

PlanResult planWithin(const Problem &p, const SearchOptions &options) {
  PlanResult r = Planner(p, options).run();
  const std::optional<double> least = leastCostAtAll(p);
  const bool isBest = least && r.isWithin && !options.smallest && r.planned.cost <= *least;
  if (hasAlternatives(p) && !isBest) {
    Planner more(p, options, &r);
    if (more.usesOptional())
      r = better(std::move(r), more.run(), options.smallest);
  }
  assert((!r.baseline.error.empty() || isAsClaimed(p, options, r)) && "a plan is not as it says");
  return r;
}

} // namespace isthmus::plan
