#include "passes/plan/planner.h"

#include "passes/plan/bound.h"
#include "passes/plan/bounds/overhead_bound.h"
#include "passes/plan/dead_runs.h"
#include "passes/plan/peak_search.h"
#include "passes/plan/search/emit_schedule.h"
#include "passes/plan/storages/storage_graph.h"
#include "passes/plan/useful_search.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <tuple>
#include <utility>

namespace isthmus::plan {
namespace {

// Shares of the effort. Tightened plans are placed with as much effort as the first plan: whether a
// placement meets the budget is a matter of luck, and tightening further costs more than placing
// again.
constexpr double kFirstSearch = 0.5, kSecondSearch = 0.3, kPlacing = 0.12;
constexpr double kTighten = 0.4, kTightenSearch = 0.03;
// Where tightening leads to no plan, a whole search for the lower peak. (The search for the
// smallest budget, which would follow, takes longer and its plan is dearer.)
constexpr double kLowerSearch = 0.3;
constexpr double kBound = 0.2, kBoundIfTightened = 0.1;
// Shares for the search for the smallest budget, which follows a search that met none.
constexpr double kDown = 0.7, kNearLeast = 0.07, kPlacingLeast = 0.25;
// Shares for the ways back up from the smallest plan, until one adds at most this part of what that
// plan adds.
constexpr double kUp[] = {0.5, 0.2, 0.1}, kMuchCheaper = 0.9;
// Shares where there is one schedule: for an arena within the budget, then for the smallest arena.
// (A share of placing takes a quarter of the time of a share of search, as measured.)
constexpr double kPlacingOnly = 2, kPlacingOnlyLeast = 1.5;

// While no plan fits, at least this many steps of tightening are taken: the search for the smallest
// budget, which would follow, takes longer. Where the problem is large, each costs little beside
// the second search.
constexpr int kLeastSteps = 3, kLeastStepsIfLarge = 5;
// A step that leads to no schedule is halved, down to this part of the excess.
constexpr double kLeastStep = 0.25;
// The way back up ends after this many searches if none of them finds a cheaper plan: one from each
// of the two plans between which it leads. If one of them does, later ones may too.
constexpr int kMostFailures = 2;
// Where the problem is large, a search that gains less than this share of what the plan adds counts
// as one that finds none.
constexpr double kLeastGainUp = 2e-3;

// Streams of random numbers, beside those of PeakSearch.
constexpr uint64_t kNearLeastStream = 300, kTightenedStream = 400;

// Searches for schedules by their peaks, places them, and tightens those whose arena exceeds the
// budget.
class ArenaSearch {
public:
  // `lowestPeak`: a lower bound on the peak of every plan that it can find. If `known` is given,
  // the problem's alternatives may be used; it is a plan without them.
  ArenaSearch(const Problem &p, const SearchOptions &o, int64_t lowestPeak,
              const PlanResult *known = nullptr)
      : p_(p), o_(o), known_(known), run_(p, o, /*withAlternatives=*/known != nullptr),
        peaks_(run_, known) {
    result_.lowestPeak = lowestPeak;
  }

  bool usesAlternatives() const { return run_.graph.hasAlternatives(); }
  bool isStopped() const { return run_.isStopped(); }

  PlanResult run() {
    result_.baseline = run_.baseline;
    if (hasOneSchedule(p_)) {
      placeOnly();
      return std::move(result_);
    }
    if (!o_.smallest)
      result_.isWithin = tryBaseline() || search();
    if (!result_.isWithin && isStopped() && !o_.smallest && takeUnplaced())
      return std::move(result_);
    if (!result_.isWithin)
      searchSmallest();
    if (result_.isWithin && !isStopped()) // a caller that stops a search does not wait
      bound();
    return std::move(result_);
  }

private:
  // --- Candidates
  struct Candidate {
    Schedule schedule;
    Evaluation judged;
    int64_t arenaBytes = 0;
  };

  // (In a fixed order, views also run in their places, so their bases may live longer than the
  // search assumed. The judge decides.)
  Candidate placed(const std::vector<TaskId> &tasks, int64_t enough, double share) {
    Candidate c;
    c.schedule = withoutDeadRuns(p_, emitSchedule(run_.graph, tasks));
    c.judged = evaluate(p_, c.schedule);
    if (known_ && !c.judged.error.empty())
      c.arenaBytes = INT64_MAX;
    else
      c.arenaBytes =
          o_.arenaOf ? o_.arenaOf(c.schedule, c.judged,
                                  {enough, share * run_.effort, [this] { return run_.goesOn(); }})
                     : c.judged.peakBytes;
    return c;
  }

  void take(Candidate c) {
    result_.schedule = std::move(c.schedule);
    result_.planned = std::move(c.judged);
    result_.arenaBytes = c.arenaBytes;
  }

  bool isWithin(const Candidate &c) const { return c.arenaBytes <= o_.budgetBytes; }
  bool hasPlan() const { return !result_.schedule.empty(); }

  // Takes the plan if its arena is within the budget and it costs less than the plan taken before;
  // false if its arena is not within the budget.
  bool tryPlace(const std::vector<TaskId> &tasks, double share) {
    Candidate c = placed(tasks, o_.budgetBytes, share);
    bool ok = isWithin(c);
    if (ok && (!hasPlan() || c.judged.cost < result_.planned.cost))
      take(c);
    last_ = std::move(c);
    return ok;
  }

  // Takes the source order, with its peak as its arena, if it exceeds the budget: the search was
  // stopped before there was a plan, and its caller does not wait for a placement.
  bool takeUnplaced() {
    if (result_.baseline.peakBytes <= o_.budgetBytes)
      return false;
    result_.schedule = sourceOrder(p_);
    result_.planned = result_.baseline;
    result_.arenaBytes = result_.smallestBytes = result_.baseline.peakBytes;
    return true;
  }

  // --- Searching
  bool tryBaseline() {
    if (known_ || result_.baseline.peakBytes > o_.budgetBytes)
      return false;
    return tryPlace(run_.sourceOrder(), kPlacing);
  }

  // Places the only schedule.
  void placeOnly() {
    const std::vector<TaskId> tasks = run_.sourceOrder(); // there are no alternatives
    result_.leastCost = result_.baseline.cost;
    result_.isWithin = !o_.smallest && tryPlace(tasks, kPlacingOnly);
    if (result_.isWithin)
      return;
    if (isStopped() && !o_.smallest && takeUnplaced())
      return;
    // This does not depend on the budget, so that a later search with this arena as its budget
    // finds it again.
    Candidate least = placed(tasks, 0, kPlacingOnlyLeast);
    result_.smallestBytes = least.arenaBytes;
    result_.isWithin = o_.smallest || isWithin(least);
    take(std::move(least));
  }

  // Searches twice, from different starts, because it is not known beforehand which one leads
  // further. The cheaper plan is placed; if its arena exceeds the budget, it is tightened. If that
  // leads to no plan, so is the other one: the search for the smallest budget, which would follow,
  // takes longer and its plan is dearer.
  bool search() {
    Found cheaper = peaks_.within(o_.budgetBytes, kFirstSearch, PeakSearch::Series::First), other;
    if (!cheaper)
      return false;
    if (isStopped())
      return tryPlace(cheaper.tasks, kPlacing);
    auto searchAgain = [&] {
      other = peaks_.within(o_.budgetBytes, kSecondSearch, PeakSearch::Series::Second);
    };
    const bool isLater = isSecondLater();
    if (!isLater)
      searchAgain();
    if (cheaper.isBetter(other.cost, other.peak))
      std::swap(cheaper, other);
    placeOrTighten(std::move(cheaper));
    if (!hasPlan() && isLater && !isStopped())
      searchAgain();
    if (!hasPlan() && other && !isStopped())
      placeOrTighten(std::move(other));
    return hasPlan();
  }

  // Where the problem is large, the second search is made only if the first one leads to no plan.
  // (Of 26 plans of ResNets, RevNets, GPT-2, flows, chains and recurrent networks of 5,700 to
  // 32,000 tasks one came from the second search, and was 2.5 % of what it added cheaper.)
  bool isSecondLater() const { return run_.graph.isLarge() && !usesAlternatives(); }

  void placeOrTighten(Found found) {
    if (!tryPlace(found.tasks, kPlacing))
      tighten(std::move(found), kTighten);
  }

  // Lowers the peak from the present plan, in growing steps, until a plan fits. Then goes back up
  // by the room that is left, since of plans with nearly the same peak some are placed better than
  // others. These searches start in turn from the plan that fits and from the last one that did
  // not, and go halfway between their peaks if that is more than the room. Ends when little is left
  // to gain, neither start leads further, or the share is used up. The first step takes off the
  // whole excess.
  void tighten(Found now, double share) {
    isTightened_ = true;
    const double enough = now.cost + 0.01 * (now.cost - result_.baseline.cost);
    // `peak`: the lowest that was placed above the budget, before a plan fits.
    int64_t peak = last_.judged.peakBytes, over = last_.arenaBytes - o_.budgetBytes;
    double reach = 1, step = 1;
    Found within;
    int numFailures = 0;
    bool leadsUp = false, isSearched = false;
    const bool isLarge = run_.graph.isLarge();
    const int leastSteps = isLarge ? kLeastStepsIfLarge : kLeastSteps;
    for (int i = 0;
         (share > 0 || (!hasPlan() && i < leastSteps)) && within.cost > enough && !run_.isStopped();
         ++i) {
      const bool isFound = bool(within);
      const int64_t up = std::max(o_.budgetBytes - result_.arenaBytes, (peak - within.peak) / 2);
      const int64_t less = std::max(int64_t(step * double(over) * (1 + 0.5 * i)), p_.alignment);
      const int64_t target = isFound ? within.peak + int64_t(reach * double(up)) : peak - less;
      const Found &from = isFound && i % 2 == 0 ? within : now;
      Found next =
          peaks_.improved(from.tasks, target, 0.02, kTightenSearch, kTightenedStream + uint64_t(i));
      share -= kTightenSearch;
      if (!next && !isFound && step > kLeastStep) {
        step /= 2;
        continue;
      }
      if (!next && !hasPlan() && !isSearched) {
        next = peaks_.within(target, kLowerSearch, PeakSearch::Series::First);
        isSearched = true;
      }
      const bool isWorse = hasPlan() && next.cost >= result_.planned.cost * (1 - 1e-9);
      if (!next || (isWorse && !isFound))
        break;
      const bool isFailure = isLarge && isFound ? hardlyGains(next) : isWorse && !leadsUp;
      if (isFailure && ++numFailures == kMostFailures)
        break;
      if (isWorse)
        continue;
      leadsUp |= isFound;
      if (tryPlace(next.tasks, kPlacing)) {
        within = std::move(next);
        continue;
      }
      share -= kPlacing; // a failed placement uses its whole share
      reach /= 2;
      if (!isFound) {
        peak = std::min(target, last_.judged.peakBytes);
        over = int64_t(std::sqrt(double(over) * double(last_.arenaBytes - o_.budgetBytes)));
        reach = 1;
        now = std::move(next);
      }
    }
  }

  bool hardlyGains(const Found &next) const {
    const double gain = result_.planned.cost - next.cost;
    return gain < kLeastGainUp * (next.cost - result_.baseline.cost);
  }

  // Finds the smallest arena, among plans at the lowest peak and a little above it, which may be
  // placed better. The arena does not depend on the budget, so that a later search with this arena
  // as its budget finds it again.
  void searchSmallest() {
    run_.restartProgress();
    const std::vector<Found> met = peaks_.down(kDown, result_.lowestPeak);
    const std::vector<TaskId> &tasks = met.back().tasks;
    Candidate least = placed(tasks, 0, kPlacingLeast);
    const int64_t leastPeak = least.judged.peakBytes;
    std::vector<Candidate> all = {least};
    std::vector<Found> near; // the schedules of the others
    for (double above : {0.0, 0.01, 0.03}) {
      int64_t budget = leastPeak + int64_t(above * double(leastPeak));
      if (least.arenaBytes < budget)
        break;
      Found found =
          peaks_.improved(tasks, budget, 0.05, kNearLeast, kNearLeastStream + near.size());
      if (!found)
        continue;
      all.push_back(placed(found.tasks, 0, kPlacingLeast));
      near.push_back(std::move(found));
      const Candidate &c = all.back();
      if (std::pair(c.arenaBytes, c.judged.cost) < std::pair(least.arenaBytes, least.judged.cost))
        least = c;
    }
    result_.smallestBytes = least.arenaBytes;
    result_.isWithin = o_.smallest || isWithin(least);
    take(std::move(least));
    // A budget that is met has this plan too, so that it costs no more than the search for the
    // smallest.
    if (result_.isWithin && isTooDear())
      takeUseful(met, near, all);
    if (o_.smallest || !result_.isWithin)
      return;
    for (Candidate &c : all)
      if (isWithin(c) && c.judged.cost < result_.planned.cost)
        take(std::move(c));
    searchUpFrom(met, leastPeak);
  }

  // The search for the budget found no schedule, and that for the smallest plan went below it,
  // where plans are dear. This comes back up: the cheapest schedule that was met within the budget
  // is improved by as much work as a search for the budget has, and placed or tightened. If that
  // gains little, so are those within lower peaks, whose arenas are more likely within the budget.
  void searchUpFrom(const std::vector<Found> &met, int64_t leastPeak) {
    const double least = result_.overhead();
    const int64_t room = o_.budgetBytes - result_.smallestBytes;
    const int64_t targets[] = {o_.budgetBytes, leastPeak + room, leastPeak + room / 2};
    for (size_t i = 0; i < std::size(targets) && !isStopped(); ++i) {
      const Found &from = cheapestWithin(met, targets[i]);
      placeOrTighten(peaks_.improvedInTurn(from, targets[i], kUp[i]));
      if (result_.overhead() < kMuchCheaper * least)
        break;
    }
  }

  bool isTooDear() const { return result_.overhead() > o_.mostAdded; }

  // The last bytes often cost more than all others together. So this takes the plan with the
  // smallest arena of those found that add no more than allowed. `met` are the schedules met on the
  // way down, `near` those improved near the least peak, and `known` what was placed so far.
  void takeUseful(const std::vector<Found> &met, const std::vector<Found> &near,
                  const std::vector<Candidate> &known) {
    UsefulSearch useful(run_, peaks_, result_.baseline.cost, o_.mostAdded, met);
    if (!useful.best())
      return;
    useful.bisect(result_.planned.peakBytes);
    const Found bisected = useful.best();
    useful.descend(near);
    Candidate best;
    auto offer = [&](Candidate c) {
      const bool isAllowed =
          o_.budgetBytes <= 0 || isWithin(c) || result_.arenaBytes > o_.budgetBytes;
      if (isAllowed && overhead(c.judged.cost, result_.baseline.cost) <= o_.mostAdded &&
          (best.schedule.empty() || c.arenaBytes < best.arenaBytes))
        best = std::move(c);
    };
    for (const Candidate &c : known)
      offer(c);
    offer(placed(useful.best().tasks, 0, kPlacingLeast));
    // A lower peak may be placed worse.
    if (bisected.peak > useful.best().peak &&
        (best.schedule.empty() || bisected.peak < best.arenaBytes))
      offer(placed(bisected.tasks, 0, kPlacingLeast));
    if (!best.schedule.empty())
      take(std::move(best));
  }

  void bound() {
    const int64_t budget = o_.smallest ? result_.arenaBytes : o_.budgetBytes;
    const double cost = result_.planned.cost;
    if (hasAlternatives(p_)) {
      result_.leastCost = leastCostAtAll(p_);
      return;
    }
    OverheadBound b = leastCost(p_, result_.schedule, budget, cost,
                                run_.work(isTightened_ ? kBoundIfTightened : kBound));
    result_.leastCost = std::min(b.cost, cost); // the two sum in different orders
    result_.pricePerByte = b.pricePerByte;
  }

  const Problem &p_;
  const SearchOptions &o_;
  const PlanResult *known_;
  SearchRun run_;
  PeakSearch peaks_;
  Candidate last_; // the last one tried
  bool isTightened_ = false;
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

// The better of two plans for the same budget. Of two that cost the same it is the one with the
// better bound.
static PlanResult better(PlanResult a, PlanResult b, const SearchOptions &o) {
  const bool isByCost = a.isWithin && b.isWithin && !o.smallest;
  auto rank = [&](const PlanResult &r) {
    const bool isUseless = o.smallest ? r.overhead() > o.mostAdded : !r.isWithin;
    const double arena = double(r.arenaBytes), cost = r.planned.cost;
    return isByCost ? std::tuple(false, cost, -r.leastCost.value_or(0), arena)
                    : std::tuple(isUseless, arena, cost, 0.0);
  };
  int64_t smallest = std::max(a.smallestBytes, b.smallestBytes);
  if (a.smallestBytes > 0 && b.smallestBytes > 0)
    smallest = std::min(a.smallestBytes, b.smallestBytes);
  PlanResult best = rank(b) < rank(a) ? std::move(b) : std::move(a);
  best.smallestBytes = smallest;
  return best;
}

// Whether no search can find a cheaper plan.
static bool isBest(const Problem &p, const SearchOptions &o, const PlanResult &r) {
  const std::optional<double> least = leastCostAtAll(p);
  return least && r.isWithin && !o.smallest && r.planned.cost <= *least;
}

#ifndef NDEBUG
// Whether the judge confirms what a plan claims.
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

// The plan of one effort. `lowest` is a lower bound on every schedule's peak.
static PlanResult planOnce(const Problem &p, const SearchOptions &options, int64_t lowest) {
  // The same search as for a problem without alternatives.
  ArenaSearch first(p, options, hasAlternatives(p) ? lowestPeakOfOriginals(p) : lowest);
  PlanResult r = first.run();
  if (hasAlternatives(p) && !isBest(p, options, r) && !first.isStopped()) {
    ArenaSearch more(p, options, lowest, &r);
    if (more.usesAlternatives()) {
      PlanResult second = more.run(); // `more` reads `r`
      r = better(std::move(r), std::move(second), options);
    }
  }
  return r;
}

// The options of a search with another effort. What it reports is moved to the part of the progress
// that begins at `begin` and takes `share`. `isStopped` is set where the caller stops it.
static SearchOptions withEffort(const SearchOptions &o, double effort, double begin, double share,
                                bool &isStopped) {
  SearchOptions other = o;
  other.effort = effort;
  if (o.progress)
    other.progress = [&o, &isStopped, begin, share](const SearchProgress &now) {
      isStopped |= !o.progress({begin + share * now.share, now.cost});
      return !isStopped;
    };
  return other;
}

// A search with more effort takes other turns, and its plan may be dearer. So where more effort
// than the default is allowed, the default's search comes before it, and the better plan is taken.
PlanResult planWithin(const Problem &p, const SearchOptions &options) {
  const int64_t lowest = lowestPeak(p);
  const double effort = options.effort;
  double usual = 0; // of interest only where an effort is given
  if (effort > 0)
    usual = defaultEffort(StorageGraph(p, /*withAlternatives=*/false).numOriginal);
  PlanResult r;
  if (effort <= usual || hasOneSchedule(p)) {
    r = planOnce(p, options, lowest);
  } else {
    const double part = usual / (usual + effort);
    bool isStopped = false;
    r = planOnce(p, withEffort(options, usual, 0, part, isStopped), lowest);
    if (!isStopped && !isBest(p, options, r)) {
      PlanResult more = planOnce(p, withEffort(options, effort, part, 1 - part, isStopped), lowest);
      r = better(std::move(r), std::move(more), options);
    }
  }
  r.lowestPeak = lowest;
  assert((!r.baseline.error.empty() || isAsClaimed(p, options, r)) && "a plan is not as it says");
  return r;
}

PlanResult judgedPlan(const Problem &p, Schedule schedule, const SearchOptions &options) {
  PlanResult r;
  r.schedule = std::move(schedule);
  r.planned = evaluate(p, r.schedule);
  if (!r.planned.error.empty())
    return r;
  r.baseline = evaluate(p, sourceOrder(p));
  r.arenaBytes = options.arenaOf
                     ? options.arenaOf(r.schedule, r.planned,
                                       {.enough = options.budgetBytes, .effort = options.effort})
                     : r.planned.peakBytes;
  r.isWithin = options.smallest || r.arenaBytes <= options.budgetBytes;
  r.lowestPeak = lowestPeak(p);
  r.leastCost = leastCostAtAll(p);
  return r;
}

} // namespace isthmus::plan
