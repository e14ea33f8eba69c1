#include "passes/plan/peak_search.h"

#include "passes/plan/search/late_blocks.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The work that suffices for a greedy search, for each storage that might be evicted.
constexpr uint64_t kWorkPerCandidate = 12'000;
// Where the problem is large, improvements end after one that gains less than this share of what
// the plan adds, and each annealing ends after a quarter that does. If those of the first series
// gain less than the second share in all, the second series ends after its first start, unless that
// is cheaper already. It also ends after an improvement that leaves it behind the first series by
// more than the third share, when that had had as many. (In some ten plans of ResNets, GPT-2 and
// recurrent nets of 7,000 to 120,000 nodes, no second series won from behind.)
constexpr double kLeastGain = 2e-3, kLeastSeriesGain = 5e-3, kMostBehind = 5e-3;
// The annealing of a later start ends after a quarter if this many more, with the same gain each,
// would not lead below the best plan of earlier starts. (Gains fall to a quarter or less each
// time.)
constexpr double kPartsToBeat = 1;
// Where the problem is large, schedules made without a search are made only if the first start adds
// more than this: they run much of the forward part again. (Of some thirty plans one began with
// such a schedule, and it added 25 %.)
constexpr double kCheap = 0.1;
// Where the problem is large, and another order lowers the peak to less than this share, no search
// starts in the source order. (On recurrent networks, where it is 0.86, such a start never led
// below the others, and took half of the work.)
constexpr double kMuchLower = 0.95;
// Streams of random numbers.
constexpr uint64_t kFirstSeries = 0, kSecondSeries = 501, kImproved = 100, kLeastPeak = 200,
                   kFalling = 600;

struct Start {
  bool isReordered; // or else in the source order
  GreedyOptions greedy;
  double hot;
  // In the second series the greedy search goes down to this share of the budget, and annealing
  // comes back up: a search that stays above the budget may not reach a good plan of less memory.
  double overshoot;
};
constexpr Start kStarts[] = {{true, {false, 0}, 0.01, 0.97},
                             {false, {true, 0}, 0.05, 0.92},
                             {true, {true, 0.5}, 0.2, 0.86},
                             {false, {false, 0.5}, 1, 0.8}};
// The first temperatures of the improvements that follow.
constexpr double kHot[] = {0.2, 0.05, 0.02, 0.01};

uint64_t streamOf(PeakSearch::Series series) {
  return series == PeakSearch::Series::Second ? kSecondSeries : kFirstSeries;
}

} // namespace

PeakSearch::PeakSearch(SearchRun &run, const PlanResult *known)
    : run_(run), g_(run.graph), known_(known), drafts_(run), recursions_(run), nested_(run),
      ordered_(run.found(reordered())) {}

// The order of the lowest peak without repeats, of a few.
std::vector<TaskId> PeakSearch::reordered() const {
  const std::vector<TaskId> source = run_.sourceOrder();
  if (run_.problem.order == Order::Fixed)
    return source;
  std::vector<TaskId> best = source;
  int64_t least = run_.baseline.peakBytes;
  auto offer = [&](const std::vector<TaskId> &order) {
    SearchState s = run_.stateWithoutDraws(run_.baseline.peakBytes);
    s.assign(order);
    if (run_.mayReorder())
      reorder(s);
    if (s.schedule().peak() >= least)
      return;
    least = s.schedule().peak();
    best = s.schedule().tasks();
  };
  offer(source);
  // In an order by phases, steps of the forward phase stay where they are.
  size_t first = 0;
  for (size_t i = 0; !run_.mayReorder() && i < source.size(); ++i)
    if (!g_.tasks[source[i]].isBackward)
      first = i + 1;
  offer(withLateBlocks(g_, source, first));
  return best;
}

Found PeakSearch::improved(const std::vector<TaskId> &tasks, int64_t budget, double hot,
                           double share, uint64_t stream) {
  SearchState s = run_.state(budget, stream);
  s.assign(tasks);
  run_.follow(s, share);
  uint64_t begin = s.work();
  if (!s.fits())
    searchGreedily(s, {}, begin + run_.work(share) / 2);
  Found found;
  anneal(s, hot, begin + run_.work(share), {.ofPart = leastGain(s)}, found);
  return found;
}

// A quarter of an annealing that gains less ends it.
double PeakSearch::leastGain(const SearchState &s) const {
  return g_.isLarge() ? kLeastGain * std::max(0.0, s.cost() - run_.baseline.cost) : 0;
}

// The known plan, if it is within the budget.
Found PeakSearch::known(int64_t budget) const {
  Found found;
  if (!known_ || !known_->isWithin)
    return found;
  SearchState s = run_.stateWithoutDraws(budget);
  s.assign(run_.tasksOf(known_->schedule));
  found.offer(s);
  return found;
}

Found PeakSearch::start(int64_t budget) {
  Found best = known(budget);
  best.offer(drafts_.cheapestWithin(budget));
  best.offer(recursions_.within(budget));
  return best;
}

Found PeakSearch::within(int64_t budget, double share, Series series) {
  const bool isSecond = series == Series::Second;
  if (!run_.goesOnIfLarge())
    return {};
  Found best = hasLateDrafts() ? Found() : start(budget);
  if (g_.hasInverses() && !run_.isStopped() && (isSecond || !best)) {
    constexpr double kShare = 1.0 / 3;
    if (const Found &start = nested_.within(budget, /*isFirstEnough=*/false)) {
      best.offer(start);
      best.offer(
          improved(start.tasks, budget, kHot[1], kShare * share, streamOf(series) + kImproved - 1));
      share -= kShare * share;
    }
  }
  const double used = searchFromStarts(budget, share, series, best);
  if (!(isSecond && isSettledBelow(best)))
    improve(budget, share - used, series, best);
  return best;
}

// Returns the share of the work that was done.
double PeakSearch::searchFromStarts(int64_t budget, double share, Series series, Found &best) {
  const bool isSecond = series == Series::Second;
  const double slice = share / double(std::size(kStarts) + std::size(kHot));
  double used = 0;
  for (size_t i = 0; i < std::size(kStarts) && !run_.isStopped() && used <= share / 3; ++i) {
    const Start &start = kStarts[i];
    const bool isOrdered = start.isReordered != isSecond; // the second series swaps the two orders
    if (!isOrdered && g_.isLarge() &&
        double(ordered_.peak) < kMuchLower * double(run_.baseline.peakBytes))
      continue;
    SearchState s = run_.state(isSecond ? int64_t(start.overshoot * double(budget)) : budget,
                               streamOf(series) + i);
    s.prefersTransfers = isSecond;
    if (isOrdered)
      s.assign(ordered_.tasks);
    run_.follow(s, slice);
    uint64_t begin = s.work();
    // On large graphs the first descent takes up to half of the work.
    uint64_t most = run_.work(slice) / 2;
    if (i == 0)
      most =
          std::max(most, std::min(run_.work(share) / 2, kWorkPerCandidate * s.candidates().size()));
    searchGreedily(s, start.greedy, begin + most);
    s.setBudget(budget);
    Found found;
    LeastGain least = {.ofPart = leastGain(s)};
    if (g_.isLarge() && best)
      least = {least.ofPart, best.cost, kPartsToBeat};
    anneal(s, start.hot, std::max(s.work(), begin) + run_.work(slice) / 2, least, found);
    best.offer(std::move(found));
    if (hasLateDrafts() && i == 0 && (!best || overhead(best.cost, run_.baseline.cost) > kCheap))
      best.offer(this->start(budget));
    run_.showBest(best ? best.cost : 0);
    if (isSecond && isSettledBelow(best))
      break;
    used += double(s.work() - begin) / double(run_.work(1));
  }
  return used;
}

Found PeakSearch::improvedInTurn(Found found, int64_t budget, double share) {
  improve(budget, share, Series::First, found);
  return found;
}

// Improves the best schedule again and again, each time at a lower temperature.
void PeakSearch::improve(int64_t budget, double share, Series series, Found &best) {
  const bool isSecond = series == Series::Second;
  const double slice = share / double(std::size(kHot)), begun = best.cost;
  // What the costs before and after differ by, as a share of what the plan adds.
  auto gainSince = [&](double before) {
    const double added = best.cost - run_.baseline.cost;
    return added > 0 ? (before - best.cost) / added : 0;
  };
  if (!isSecond)
    improvedCosts_.clear();
  for (size_t i = 0; i < std::size(kHot) && !run_.isStopped() && best; ++i) {
    const double before = best.cost;
    best.offer(improved(best.tasks, budget, kHot[i], slice, streamOf(series) + kImproved + i));
    run_.showBest(best.cost);
    if (!g_.isLarge())
      continue;
    if (!isSecond)
      improvedCosts_.push_back(best.cost);
    if (gainSince(before) < kLeastGain ||
        (isSecond && i < improvedCosts_.size() && gainSince(improvedCosts_[i]) < -kMostBehind))
      break;
  }
  if (!isSecond)
    settledCost_ = g_.isLarge() && best && gainSince(begun) < kLeastSeriesGain ? best.cost : 0;
}

std::vector<Found> PeakSearch::falling(double most) {
  constexpr double kStep = 0.9, kWarm = 0.05, kShare = 0.015;
  constexpr int kMostPoints = 24;
  std::vector<Found> met = {ordered_};
  for (int i = 0; i < kMostPoints && !run_.isStopped(); ++i) {
    const int64_t budget = int64_t(kStep * double(met.back().peak));
    Found next = drafts_.cheapestWithin(budget);
    next.offer(improved(met.back().tasks, budget, kWarm, kShare, kFalling + uint64_t(i)));
    if (!next || next.cost > most)
      break;
    met.push_back(std::move(next));
  }
  return met;
}

// Lowers the peak step by step, each time from the schedule of the lowest peak so far, or, if that
// fails and the step is large, from an order without repeats. A failed step is halved. Then repeats
// this with noise.
std::vector<Found> PeakSearch::down(double share, int64_t lowestPeak) {
  constexpr double kFarStep = 0.02, kLeastStep = 1e-3;
  constexpr uint64_t kParts = 12; // of the work, for one attempt at one peak
  SearchState s = run_.state(run_.baseline.peakBytes, kLeastPeak);
  run_.follow(s, share);
  std::vector<Found> met = {ordered_};
  const uint64_t all = run_.work(share), until = s.work() + all;
  GreedyOptions greedy;
  auto lower = [&](const std::vector<TaskId> &from, bool withSiblings, int64_t target,
                   uint64_t most) {
    most += s.work();
    s.setBudget(target);
    s.assign(from);
    greedy.withSiblings = withSiblings;
    searchGreedily(s, greedy, most);
    if (!s.fits())
      annealToBudget(s, most);
    if (s.schedule().peak() < met.back().peak)
      met.push_back({s.schedule().tasks(), s.cost(), s.schedule().peak()});
    return s.fits();
  };
  auto isDone = [&] {
    return s.work() >= until || met.back().peak <= lowestPeak || run_.isStopped();
  };
  for (const Found &f : drafts_.all())
    if (f.peak < met.back().peak)
      met.push_back(f);
  if (run_.isStopped())
    return met;
  // Recursions use no inverses, and the search without alternatives has tried them: below their
  // lowest peak the much cheaper schedules that use inverses would not be met.
  if (g_.hasInverses()) {
    for (Found &f : nested_.down(lowestPeak, met.back().peak))
      met.push_back(std::move(f));
  } else if (Found chain = recursions_.lowestBelow(met.back().peak)) {
    met.push_back(std::move(chain));
  }
  // A distant peak is better reached in one descent than step by step.
  const double ofBound = double(lowestPeak) / double(run_.baseline.peakBytes);
  lower(ordered_.tasks, false, int64_t(double(run_.baseline.peakBytes) * std::pow(ofBound, 0.75)),
        std::min(all / 3, kWorkPerCandidate * s.candidates().size()));
  for (; !isDone(); greedy.noise = 0.5)
    for (double step = 0.1; step > kLeastStep && !isDone();) {
      const uint64_t slice = std::max<uint64_t>(all / kParts, 1);
      const int64_t target = std::max(lowestPeak, int64_t(double(met.back().peak) * (1 - step)));
      bool ok = lower(std::vector(met.back().tasks), false, target, slice);
      if (!ok && step > kFarStep)
        ok = lower(ordered_.tasks, false, target, slice) ||
             lower(run_.sourceOrder(), true, target, slice);
      if (!ok)
        step /= 2;
    }
  return met;
}

} // namespace isthmus::plan
