#include "passes/plan/drafts.h"

#include "passes/plan/chains/segments.h"
#include "passes/plan/checkpoint_schedule.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The share of the work spent on schedules for prices of memory.
constexpr double kPriced = 0.1;

} // namespace

const std::vector<Found> &Drafts::all() {
  if (areMade_)
    return drafts_;
  areMade_ = true;
  for (uint32_t least = 4;
       least < g_.numOriginal && !run_.options.isSegment && run_.goesOnIfLarge();
       least += least / 2)
    addForSegments(least);
  if (g_.hasInverses() && run_.goesOnIfLarge())
    addForPrices();
  return drafts_;
}

Found Drafts::cheapestWithin(int64_t budget) {
  Found best;
  for (const Found &f : all())
    if (f.peak <= budget)
      best.offer(f);
  return best;
}

// Returns the index of the step at the peak.
size_t Drafts::add(std::vector<TaskId> tasks) {
  SearchState s = run_.stateWithoutDraws(run_.baseline.peakBytes);
  s.assign(tasks);
  const std::vector<StepId> steps = s.profile().steps();
  drafts_.push_back({std::move(tasks), s.cost(), s.schedule().peak()});
  return size_t(std::find(steps.begin(), steps.end(), s.profile().peakStep()) - steps.begin());
}

// --- Checkpoints of segments

// Storages that cross from segment to segment stay live, and so do small ones. All others are
// recomputed in the backward part of their segment (Chen et al. 2016).
void Drafts::addForSegments(uint32_t leastTasks) {
  const std::optional<Segments> segments = segmentsOf(g_, leastTasks);
  if (!segments || !run_.goesOnIfLarge())
    return;
  const Problem &p = run_.problem;
  const SearchState small = run_.stateWithoutDraws(run_.baseline.peakBytes);
  std::vector<std::vector<bool>> stays(p.ops.size());
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    stays[i].assign(p.ops[i].outputBytes.size(), false);
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
  std::vector<TaskId> tasks = run_.tasksOf(checkpointSchedule(p, stays));
  if (!run_.goesOnIfLarge())
    return;
  const bool isValid = run_.isValid(tasks); // or it reads what was overwritten
  if (isValid && run_.goesOnIfLarge())
    add(std::move(tasks));
}

// --- Prices of memory

// Returns the peak's place in the order.
uint32_t Drafts::addForPrice(const MemoryPrice &price) {
  PricedSchedule found = scheduleForPrice(g_, run_.sourceOrder(), price);
  pricedWork_ += found.work;
  const size_t peak = add(std::move(found.tasks));
  return peak < found.places.size() ? found.places[peak] : uint32_t(price.shares.size() - 1);
}

// Tries prices from those at which nearly every storage is held to those at which hardly any is.
// First all tasks have equal shares, so that long idle intervals are expensive, wherever the peak
// is. Then the shares are at the peak of the unpriced schedule, and at the places to which the peak
// moves when it is lowered there. At a price of 1, holding the bytes live at the peak throughout
// costs as much as running every op once.
void Drafts::addForPrices() {
  constexpr double kPrices[] = {0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000}, kBiases[] = {1, 8};
  constexpr int kMostPeaks = 3;
  const size_t n = g_.numOriginal;
  const double one = run_.baseline.cost / double(std::max<int64_t>(1, run_.baseline.peakBytes));
  MemoryPrice terms{.shares = std::vector<double>(n, 1 / double(n))};
  auto isOver = [&] { return !run_.goesOnIfLarge() || pricedWork_ > run_.work(kPriced); };
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

} // namespace isthmus::plan
