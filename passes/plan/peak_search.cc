#include "passes/plan/peak_search.h"

#include "passes/plan/checkpoint_schedule.h"
#include "passes/plan/dead_runs.h"
#include "passes/plan/emit_schedule.h"
#include "passes/plan/late_blocks.h"
#include "passes/plan/nested_schedule.h"
#include "passes/plan/segments.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The work of one unit of effort; measured: about a second of a core.
constexpr double kWorkPerEffort = 3e7;
// The work that suffices for a greedy search, for each storage that might be evicted.
constexpr uint64_t kWorkPerCandidate = 12'000;
// The share of the work spent on schedules for prices of memory.
constexpr double kPriced = 0.1;
// The share of the work spent on one recursion over checkpoints, and how many sums of costs take as
// long as one step of work; measured. Even with little effort, short chains are solved.
constexpr double kChained = 0.02, kSumsPerWork = 40, kLeastSums = 3e7;
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
// Streams of random numbers.
constexpr uint64_t kFirstSeries = 0, kSecondSeries = 501, kImproved = 100, kLeastPeak = 200,
                   kNoDraws = 400, kFalling = 600;

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

} // namespace

PeakSearch::PeakSearch(const Problem &p, const SearchOptions &o, const PlanResult *known)
    : p_(p), o_(o), known_(known), g_(p, /*withAlternatives=*/known != nullptr),
      effort_(effortOf(o, g_.numOriginal)), baseline_(evaluate(p, plan::sourceOrder(p))),
      ordered_(reordered()) {}

uint64_t PeakSearch::work(double share) const {
  constexpr double kMost = 1e18; // sums of a few stay within 64 bits
  return static_cast<uint64_t>(std::min(std::max(share, 0.0) * effort_ * kWorkPerEffort, kMost));
}

std::vector<TaskId> PeakSearch::sourceOrder() const {
  std::vector<TaskId> tasks;
  for (TaskId t : IdRange<TaskId>{TaskId(0), TaskId(g_.numOriginal)})
    tasks.push_back(t);
  return tasks;
}

// The order of the lowest peak without repeats, of a few.
std::vector<TaskId> PeakSearch::reordered() const {
  const std::vector<TaskId> source = sourceOrder();
  if (p_.order == Order::Fixed)
    return source;
  std::vector<TaskId> best = source;
  int64_t least = baseline_.peakBytes;
  auto offer = [&](const std::vector<TaskId> &order) {
    SearchState s = state(baseline_.peakBytes, kNoDraws);
    s.assign(order);
    if (mayReorder())
      reorder(s);
    if (s.schedule().peak() >= least)
      return;
    least = s.schedule().peak();
    best = s.schedule().tasks();
  };
  offer(source);
  // In an order by phases, steps of the forward phase stay where they are.
  size_t first = 0;
  for (size_t i = 0; !mayReorder() && i < source.size(); ++i)
    if (!g_.tasks[source[i]].isBackward)
      first = i + 1;
  offer(withLateBlocks(g_, source, first));
  return best;
}

// From here on, the state's work counts as `share` of the reported progress.
void PeakSearch::follow(SearchState &s, double share) {
  double before = share_;
  share_ += share;
  uint64_t begin = s.work(), all = std::max<uint64_t>(work(share), 1);
  s.goOn = [this, &s, before, share, begin, all] {
    double done = before + share * double(s.work() - begin) / double(all);
    if (o_.progress && !isStopped_)
      isStopped_ = !o_.progress({std::min(done, 1.0), bestCost_});
    return !isStopped_;
  };
}

Found PeakSearch::improved(const std::vector<TaskId> &tasks, int64_t budget, double hot,
                           double share, uint64_t stream) {
  SearchState s = state(budget, stream);
  s.assign(tasks);
  follow(s, share);
  uint64_t begin = s.work();
  if (!s.fits())
    searchGreedily(s, {}, begin + work(share) / 2);
  Found found;
  anneal(s, hot, begin + work(share), {.ofPart = leastGain(s)}, found);
  return found;
}

// A quarter of an annealing that gains less ends it.
double PeakSearch::leastGain(const SearchState &s) const {
  return g_.isLarge() ? kLeastGain * std::max(0.0, s.cost() - baseline_.cost) : 0;
}

// The tasks of a schedule without alternatives.
std::vector<TaskId> PeakSearch::tasksOf(const Schedule &schedule) const {
  std::vector<TaskId> taskOf(p_.ops.size()), tasks;
  for (TaskId t : sourceOrder())
    taskOf[g_.tasks[t].source] = t;
  for (OpIndex i : schedule)
    if (taskOf[i])
      tasks.push_back(taskOf[i]);
  return tasks;
}

// The known plan, if it is within the budget.
Found PeakSearch::known(int64_t budget) const {
  Found found;
  if (!known_ || !known_->isWithin)
    return found;
  SearchState s = state(budget, kNoDraws);
  s.assign(tasksOf(known_->schedule));
  found.offer(s);
  return found;
}

// --- Drafts

// Returns the index of the step at the peak.
size_t PeakSearch::addDraft(std::vector<TaskId> tasks) {
  SearchState s = state(baseline_.peakBytes, kNoDraws);
  s.assign(tasks);
  const std::vector<StepId> steps = s.profile().steps();
  drafts_.push_back({std::move(tasks), s.cost(), s.schedule().peak()});
  return size_t(std::find(steps.begin(), steps.end(), s.profile().peakStep()) - steps.begin());
}

void PeakSearch::findDrafts() {
  if (hasDrafts_)
    return;
  hasDrafts_ = true;
  for (uint32_t least = 4; least < g_.numOriginal && !o_.isSegment && goesOnIfLarge();
       least += least / 2)
    addForSegments(least);
  if (g_.hasInverses() && goesOnIfLarge())
    findPriced();
}

// The cheapest draft within the budget.
Found PeakSearch::drafted(int64_t budget) {
  findDrafts();
  Found best;
  for (const Found &f : drafts_)
    if (f.peak <= budget)
      best.offer(f);
  return best;
}

// Storages that cross from segment to segment stay live, and so do small ones. All others are
// recomputed in the backward part of their segment (Chen et al. 2016).
void PeakSearch::addForSegments(uint32_t leastTasks) {
  const std::optional<Segments> segments = segmentsOf(g_, leastTasks);
  if (!segments || !goesOnIfLarge())
    return;
  const SearchState small = state(baseline_.peakBytes, kNoDraws);
  std::vector<std::vector<bool>> stays(p_.ops.size());
  for (OpIndex i = 0; i < p_.ops.size(); ++i)
    stays[i].assign(p_.ops[i].outputBytes.size(), false);
  auto keep = [&](StorageId s) {
    const Storages::Task &maker = g_.tasks[g_.storages[s].maker];
    stays[maker.source][s.index - maker.firstMade.index] = true;
  };
  for (StorageId s : g_.storages.ids()) // (a maker may not repeat if a view may not)
    if (small.isSmall(s) || !g_.tasks[g_.storages[s].maker].mayRepeat)
      keep(s);
  for (uint32_t k = 1; k < segments->num; ++k)
    for (StorageId s : segments->in[k])
      keep(s);
  std::vector<TaskId> tasks = tasksOf(checkpointSchedule(p_, stays));
  if (!goesOnIfLarge())
    return;
  const bool isValid = evaluate(p_, emitSchedule(g_, tasks)).error.empty(); // (or reads what was
                                                                            // overwritten)
  if (isValid && goesOnIfLarge())
    addDraft(std::move(tasks));
}

// --- Recursions over checkpoints

// A schedule made without a search; none if it is not valid.
Found PeakSearch::foundOf(const std::vector<TaskId> &tasks) const {
  if (tasks.empty() || !evaluate(p_, emitSchedule(g_, tasks)).error.empty())
    return {};
  SearchState s = state(baseline_.peakBytes, kNoDraws);
  s.assign(tasks);
  return {tasks, s.cost(), s.schedule().peak()};
}

ChainOptions PeakSearch::chainOptions(const SearchState &s) const {
  return {[&s](StorageId storage) { return s.isSmall(storage); },
          uint64_t(std::max(double(work(kChained)) * kSumsPerWork, kLeastSums))};
}

// Sizes are rounded in the recursion, so that the peak may exceed the budget a little; then less is
// asked for.
Found PeakSearch::chained(int64_t budget) {
  constexpr int kMostTries = 4;
  auto [known, isNew] = chained_.try_emplace(budget);
  Found &best = known->second;
  if (!isNew || !mayReorder() || o_.isSegment || !goesOnIfLarge())
    return best;
  const SearchState s = state(budget, kNoDraws);
  ChainSchedules schedules(g_, budget, chainOptions(s));
  int64_t asked = budget;
  for (int i = 0; i < kMostTries && !best && goesOnIfLarge(); ++i) {
    Found found = foundOf(schedules.within(asked));
    if (!found)
      break;
    asked -= found.peak - budget;
    if (found.peak <= budget)
      best = std::move(found);
  }
  return best;
}

// The lowest peak. None if it is not below `most`.
Found PeakSearch::lowestChained(int64_t most) {
  constexpr int kMostTries = 4;
  Found best;
  for (int i = 0; i < kMostTries && mayReorder() && !o_.isSegment && goesOnIfLarge(); ++i) {
    const SearchState s = state(most, kNoDraws);
    Found found = foundOf(ChainSchedules(g_, most, chainOptions(s)).lowest());
    if (!found || found.peak >= most)
      break;
    most = found.peak;
    best = std::move(found);
  }
  return best;
}

// --- Schedules for a price of memory

// Returns the peak's place in the order.
uint32_t PeakSearch::addForPrice(const MemoryPrice &price) {
  PricedSchedule found = scheduleForPrice(g_, sourceOrder(), price);
  pricedWork_ += found.work;
  const size_t peak = addDraft(std::move(found.tasks));
  return peak < found.places.size() ? found.places[peak] : uint32_t(price.shares.size() - 1);
}

// Tries prices from those at which nearly every storage is held to those at which hardly any is.
// First all tasks have equal shares, so that long idle intervals are expensive, wherever the peak
// is. Then the shares are at the peak of the unpriced schedule, and at the places to which the peak
// moves when it is lowered there. At a price of 1, holding the bytes live at the peak throughout
// costs as much as running every op once.
void PeakSearch::findPriced() {
  constexpr double kPrices[] = {0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000}, kBiases[] = {1, 8};
  constexpr int kMostPeaks = 3;
  const size_t n = g_.numOriginal;
  const double one = baseline_.cost / double(std::max<int64_t>(1, baseline_.peakBytes));
  MemoryPrice terms{.shares = std::vector<double>(n, 1 / double(n))};
  auto isOver = [&] { return !goesOnIfLarge() || pricedWork_ > work(kPriced); };
  uint32_t peak = 0;
  auto addAll = [&] {
    int64_t least = INT64_MAX;
    for (double bias : kBiases)
      for (double price : kPrices) {
        if (isOver())
          return;
        terms.perByte = price * one;
        terms.bias = bias;
        const uint32_t at = addForPrice(terms);
        if (drafts_.back().peak < least)
          peak = at;
        least = std::min(least, drafts_.back().peak);
      }
  };
  addAll();
  terms = {.shares = std::vector<double>(n, 0), .sparesReaders = true};
  peak = addForPrice(terms);
  for (int i = 0; i < kMostPeaks && terms.shares[peak] == 0 && !isOver(); ++i) {
    terms.shares[peak] = 1;
    addAll();
  }
}

// --- Schedules put together from plans of segments

// Plans the `number`-th of the segments that differ from all before.
Schedule PeakSearch::planOfSegment(const Problem &p, int64_t budget, int number) {
  constexpr double kEffort = 0.01;
  constexpr int kMostSegments = 30;
  if (number > kMostSegments || isStopped_)
    return {};
  SearchOptions o;
  o.effort = kEffort * effort_;
  o.seed = o_.seed;
  o.isSegment = true;
  o.progress = [this](const SearchProgress &) { return goesOn(); };
  const PlanResult known;
  PeakSearch search(p, o, &known);
  const Found found = search.within(budget, 1, Series::First);
  return found ? withoutDeadRuns(p, emitSchedule(search.g_, found.tasks)) : Schedule();
}

// The cheapest schedule of several divisions into segments, or the first one within the budget.
Found PeakSearch::nested(int64_t budget, bool isFirstEnough) {
  constexpr uint32_t kLeastTasks[] = {24, 12, 6, 48}; // of a segment
  auto [known, isNew] = nested_.try_emplace({budget, isFirstEnough});
  Found &best = known->second;
  if (!isNew || !mayReorder() || o_.isSegment)
    return best;
  for (uint32_t least : kLeastTasks) {
    if (!goesOnIfLarge())
      break;
    int number = 0;
    const std::vector<TaskId> tasks =
        nestedSchedule(g_, budget, least, [&](const Problem &p, int64_t bytes) {
          return planOfSegment(p, bytes, ++number);
        });
    if (tasks.empty())
      continue;
    SearchState s = state(budget, kNoDraws);
    s.assign(tasks);
    best.offer(s);
    if (isFirstEnough)
      break;
  }
  return best;
}

// Nested schedules at lower and lower budgets, from a little below `peak`. Each has a lower peak
// than the one before.
std::vector<Found> PeakSearch::nestedDown(int64_t lowestPeak, int64_t peak) {
  constexpr int kMostBudgets = 8;
  constexpr double kFirst = 0.98, kNear = 0.005;
  std::vector<Found> met;
  int64_t budget = int64_t(kFirst * double(peak)), tooLow = lowestPeak;
  for (int i = 0; i < kMostBudgets; ++i) {
    Found found = nested(budget, /*isFirstEnough=*/true);
    if (found)
      met.push_back(found);
    else if (met.empty())
      break;
    else
      tooLow = budget;
    const int64_t least = met.back().peak;
    if (double(least - tooLow) < kNear * double(least))
      break;
    budget = (least + tooLow) / 2;
  }
  return met;
}

Found PeakSearch::start(int64_t budget) {
  Found best = known(budget);
  best.offer(drafted(budget));
  best.offer(chained(budget));
  return best;
}

Found PeakSearch::within(int64_t budget, double share, Series series) {
  constexpr double kHot[] = {0.2, 0.05, 0.02, 0.01};
  const bool isSecond = series == Series::Second;
  const uint64_t stream = isSecond ? kSecondSeries : kFirstSeries;
  if (!goesOnIfLarge())
    return {};
  double slice = share / double(std::size(kStarts) + std::size(kHot)), used = 0;
  const bool isLater = g_.isLarge() && !g_.hasAlternatives();
  Found best = isLater ? Found() : start(budget);
  if (g_.hasInverses() && !isStopped_) {
    if (const Found start = isSecond || !best ? nested(budget, /*isFirstEnough=*/false) : Found()) {
      best.offer(start);
      best.offer(improved(start.tasks, budget, kHot[1], share / 3, stream + kImproved - 1));
      share -= share / 3;
      slice = share / double(std::size(kStarts) + std::size(kHot));
    }
  }
  for (size_t i = 0; i < std::size(kStarts) && !isStopped_; ++i) {
    const Start &start = kStarts[i];
    SearchState s =
        state(isSecond ? int64_t(start.overshoot * double(budget)) : budget, stream + i);
    s.prefersTransfers = isSecond;
    if (start.isReordered != isSecond) // the second series swaps the two orders
      s.assign(ordered_);
    follow(s, slice);
    uint64_t begin = s.work();
    // On large graphs the first descent takes up to half of the work.
    uint64_t most = work(slice) / 2;
    if (i == 0)
      most = std::max(most, std::min(work(share) / 2, kWorkPerCandidate * s.candidates().size()));
    searchGreedily(s, start.greedy, begin + most);
    s.setBudget(budget);
    Found found;
    LeastGain least = {.ofPart = leastGain(s)};
    if (g_.isLarge() && best)
      least = {least.ofPart, best.cost, kPartsToBeat};
    anneal(s, start.hot, std::max(s.work(), begin) + work(slice) / 2, least, found);
    best.offer(std::move(found));
    if (isLater && i == 0 && (!best || overhead(best.cost, baseline_.cost) > kCheap))
      best.offer(this->start(budget));
    bestCost_ = best ? best.cost : 0;
    if (isSecond && best && best.cost >= settledCost_ && settledCost_ > 0)
      return best;
    used += double(s.work() - begin) / double(work(1));
    if (used > share / 3)
      break;
  }
  slice = (share - used) / double(std::size(kHot));
  const double begun = best.cost;
  // What the costs before and after differ by, as a share of what the plan adds.
  auto gainSince = [&](double before) {
    const double added = best.cost - baseline_.cost;
    return added > 0 ? (before - best.cost) / added : 0;
  };
  if (!isSecond)
    improvedCosts_.clear();
  for (size_t i = 0; i < std::size(kHot) && !isStopped_ && best; ++i) {
    const double before = best.cost;
    best.offer(improved(best.tasks, budget, kHot[i], slice, stream + kImproved + i));
    bestCost_ = best.cost;
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
  return best;
}

std::vector<Found> PeakSearch::falling(double most) {
  constexpr double kStep = 0.9, kHot = 0.05, kShare = 0.015;
  constexpr int kMostPoints = 24;
  SearchState s = state(baseline_.peakBytes, kNoDraws);
  s.assign(ordered_);
  std::vector<Found> met = {{ordered_, s.cost(), s.schedule().peak()}};
  for (int i = 0; i < kMostPoints && !isStopped_; ++i) {
    const int64_t budget = int64_t(kStep * double(met.back().peak));
    Found next = drafted(budget);
    next.offer(improved(met.back().tasks, budget, kHot, kShare, kFalling + uint64_t(i)));
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
  SearchState s = state(baseline_.peakBytes, kLeastPeak);
  follow(s, share);
  s.assign(ordered_);
  std::vector<Found> met = {{ordered_, s.cost(), s.schedule().peak()}};
  const uint64_t all = work(share), until = s.work() + all;
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
  auto isDone = [&] { return s.work() >= until || met.back().peak <= lowestPeak || isStopped_; };
  findDrafts();
  for (const Found &f : drafts_)
    if (f.peak < met.back().peak)
      met.push_back(f);
  if (isStopped_)
    return met;
  // Recursions use no inverses, and the search without alternatives has tried them: below their
  // lowest peak the much cheaper schedules that use inverses would not be met.
  if (g_.hasInverses()) {
    for (Found &f : nestedDown(lowestPeak, met.back().peak))
      met.push_back(std::move(f));
  } else if (Found chain = lowestChained(met.back().peak)) {
    met.push_back(std::move(chain));
  }
  // A distant peak is better reached in one descent than step by step.
  const double ofBound = double(lowestPeak) / double(baseline_.peakBytes);
  lower(ordered_, false, int64_t(double(baseline_.peakBytes) * std::pow(ofBound, 0.75)),
        std::min(all / 3, kWorkPerCandidate * s.candidates().size()));
  for (; !isDone(); greedy.noise = 0.5)
    for (double step = 0.1; step > kLeastStep && !isDone();) {
      const uint64_t slice = std::max<uint64_t>(all / kParts, 1);
      const int64_t target = std::max(lowestPeak, int64_t(double(met.back().peak) * (1 - step)));
      bool ok = lower(std::vector(met.back().tasks), false, target, slice);
      if (!ok && step > kFarStep)
        ok = lower(ordered_, false, target, slice) || lower(sourceOrder(), true, target, slice);
      if (!ok)
        step /= 2;
    }
  return met;
}

} // namespace isthmus::plan
