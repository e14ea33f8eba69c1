#include "passes/plan/search/random_moves.h"

#include "passes/plan/search/step_order.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// Examining a random storage counts one more step of work for this many candidates: the more there
// are, the fewer of them are in the processor's cache.
constexpr size_t kPerLook = 16384;

} // namespace

// --- Repeated steps

StepId RandomMoves::randomRepeat(TaskId t) {
  const EditableSchedule::Instances &instances = edits_.instancesOfSteps(t);
  return s_.maker(instances[1 + random_.below(instances.size() - 1)]);
}

// A cheap estimate. Without the step, the older instances of its results would have to stay live.
bool RandomMoves::hasRoomWithout(StepId r) const {
  int64_t need = 0;
  for (uint32_t k = 0; k < s_.task(r).reads.size(); ++k)
    if (s_.lastUse(s_.read(r, k)) == r)
      need -= g_.storages[s_.task(r).reads[k]].bytes;
  StepId from;
  for (InstanceId c : s_.made(r)) {
    if (s_.readers(c).empty())
      continue;
    StepId last = s_.lastUse(s_.newestBefore(s_.storageOf(c), r));
    if (!from || s_.isBefore(from, last))
      from = last;
    need += g_.storages[s_.storageOf(c)].bytes;
  }
  return !from || s_.profile().maxBetween(from, r) + need <= state_.budget();
}

bool RandomMoves::canDoWithout(StepId r) const {
  return evictor_.rematerializer().isRemovable(r) && hasRoomWithout(r);
}

bool RandomMoves::removeRepeat() {
  const std::vector<TaskId> &repeated = edits_.repeated();
  if (repeated.empty())
    return false;
  const StepId r = randomRepeat(repeated[random_.below(repeated.size())]);
  if (!canDoWithout(r))
    return false;
  edits_.remove(r);
  edits_.removeUnread();
  return true;
}

bool RandomMoves::ruin() {
  if (edits_.repeated().empty())
    return false;
  TaskId t = edits_.repeated()[random_.below(edits_.repeated().size())];
  int count = 1 + static_cast<int>(1.5 * random_.exponential());
  for (int i = 0; i < count; ++i) {
    if (edits_.numSteps(t) >= 2) {
      StepId r = randomRepeat(t);
      if (edits_.mayReorder() && random_.chance(0.3))
        hoistReaders(r);
      else if (evictor_.rematerializer().isRemovable(r))
        edits_.remove(r);
      edits_.removeUnread();
    }
    if (edits_.repeated().empty())
      return true;
    t = nearbyRepeated(t);
  }
  return true;
}

// A repeated task near `t`: mostly the nearest of a few.
TaskId RandomMoves::nearbyRepeated(TaskId t) {
  const std::vector<TaskId> &repeated = edits_.repeated();
  TaskId nearest = t;
  uint32_t distance = ~0u;
  for (int k = random_.chance(0.8) ? 6 : 1; k > 0; --k) {
    TaskId other = repeated[random_.below(repeated.size())];
    uint32_t d = other > t ? other.index - t.index : t.index - other.index;
    if (d && d < distance) {
      distance = d;
      nearest = other;
    }
  }
  return nearest;
}

bool RandomMoves::canRun(TaskId t, StepId before) const {
  const StorageGraph::Reads &reads = g_.tasks[t].reads;
  return mayStand(s_, t, before) && std::all_of(reads.begin(), reads.end(), [&](StorageId s) {
           return bool(s_.newestBefore(s, before));
         });
}

// Moves the readers of a repeated step's results to right after the older instance's last use.
void RandomMoves::hoistReaders(StepId r) {
  for (InstanceId c : s_.made(r)) {
    InstanceId old = s_.newestBefore(s_.storageOf(c), r);
    if (!old)
      continue;
    const EditableSchedule::Readers readers = s_.readers(c);
    for (StepId reader : readers) {
      if (reader == s_.end() || edits_.numSteps(s_.taskOf(reader)) != 1)
        continue;
      StepId place = s_.next(s_.lastUse(old));
      if (!s_.isBefore(place, reader) || !canRun(s_.taskOf(reader), place))
        continue;
      edits_.insert(s_.taskOf(reader), place);
      edits_.remove(reader);
    }
  }
}

// An idle interval of a random candidate at the step; mostly none.
IdleInterval RandomMoves::randomIntervalAt(StepId step) {
  return evictor_.intervalAt(state_.randomCandidate(), step);
}

// --- Moves of checkpoints

// Follows a random chain of repeated steps, each of which reads a result of the one before it.
StepId RandomMoves::lastRepeatAfter(StepId r) {
  constexpr int kMostSteps = 10;
  for (int i = 0; i < kMostSteps; ++i) {
    StepId next;
    for (InstanceId c : s_.made(r))
      for (StepId reader : s_.readers(c))
        if (reader != s_.end() && !s_.isFirst(reader) && (!next || random_.chance(0.5)))
          next = reader;
    if (!next)
      break;
    r = next;
  }
  return r;
}

// Widens the interval while a repeated step ends it: removes the last of the chain of repeated
// steps that begins there, and keeps its older instance instead. Then the interval extends to the
// next reader. False if the interval is gone.
bool RandomMoves::widen(const IdleInterval &idle) {
  const StorageId s = s_.storageOf(idle.instance);
  while (random_.chance(0.8)) {
    const StepId reader = s_.readers(idle.instance)[idle.reader];
    if (reader == s_.end() || s_.isFirst(reader))
      break;
    const StepId last = lastRepeatAfter(reader);
    if (!evictor_.rematerializer().isRemovable(last))
      break;
    edits_.remove(last);
    edits_.removeUnread();
    const EditableSchedule::Instances &left = s_.instances(s);
    if (std::find(left.begin(), left.end(), idle.instance) == left.end() ||
        idle.reader >= s_.readers(idle.instance).size())
      return false;
  }
  return true;
}

// Removes repeated steps whose results fit when held instead, roughly the most expensive first.
void RandomMoves::removeRepeats() {
  constexpr size_t kMostTries = 32;
  const std::vector<TaskId> &repeated = edits_.repeated();
  std::vector<std::pair<double, TaskId>> order;
  for (size_t i = 0; i < std::min(repeated.size(), kMostTries); ++i) {
    const TaskId t =
        repeated.size() <= kMostTries ? repeated[i] : repeated[random_.below(repeated.size())];
    order.push_back({g_.tasks[t].cost * (0.3 + random_.unit()), t});
  }
  std::sort(order.rbegin(), order.rend());
  state_.addWork(order.size());
  for (const auto &[cost, t] : order) {
    if (edits_.numSteps(t) < 2)
      continue;
    const StepId r = randomRepeat(t);
    if (!canDoWithout(r))
      continue;
    const int64_t excess = state_.excess();
    const EditLog::Mark before = edits_.mark();
    edits_.remove(r);
    edits_.removeUnread();
    if (state_.excess() > excess)
      edits_.undoTo(before);
  }
}

// Evicts a storage that is kept across the peak for repeated steps, and keeps their results
// instead. One after the other, these changes do not pay: the eviction is expensive, and only after
// it is there room to keep results that were rematerialized. So they form one move.
bool RandomMoves::moveCheckpoint(double costLimit) {
  constexpr int kMostTries = 40;
  constexpr double kAbove = 1.1; // of the limit, before repeats are removed
  if (state_.candidates().empty())
    return false;
  const StepId peak = s_.profile().peakStep();
  IdleInterval idle;
  for (int i = 0; i < kMostTries && !idle; ++i)
    idle = randomIntervalAt(peak);
  state_.addWork(kMostTries / 4);
  if (!idle || !widen(idle))
    return false;
  EvictOptions o;
  o.method = evictor_.rematerializer().randomMethod(s_.storageOf(idle.instance));
  o.isGreedy = random_.chance(0.7);
  o.extendOperands = random_.chance(0.2);
  if (!evictor_.evict(idle, o) || !recreate(kAbove * costLimit))
    return false;
  removeRepeats();
  return true;
}

// --- Moves of single steps

bool RandomMoves::evictOne(double costLimit) {
  if (state_.candidates().empty())
    return false;
  const EditableSchedule::Instances &instances =
      s_.instances(state_.candidates()[random_.below(state_.candidates().size())]);
  if (instances.empty()) // nothing that runs reads it
    return false;
  InstanceId c = instances[random_.below(instances.size())];
  if (s_.readers(c).empty())
    return false;
  IdleInterval idle = random_.chance(0.6) ? evictor_.widestInterval(c)
                                          : IdleInterval{c, random_.below(s_.readers(c).size())};
  EvictOptions o;
  o.method = evictor_.rematerializer().randomMethod(s_.storageOf(c));
  o.costLimit = costLimit;
  o.isGreedy = false;
  return idle && evictor_.evict(idle, o);
}

// Prefers places that lower the live bytes above 80 % of the budget.
bool RandomMoves::shiftStep() {
  const uint32_t first = edits_.mayReorder() ? 0 : g_.numOriginal; // the first task that may move
  if (first == g_.tasks.size())
    return false;
  const TaskId t(first + random_.below(g_.tasks.size() - first));
  const EditableSchedule::Instances &instances = s_.instances(g_.tasks[t].firstMade);
  if (instances.empty())
    return false;
  StepId r = s_.maker(instances[random_.below(instances.size())]);
  if (s_.taskOf(r).index < first || edits_.hasItsPlace(r))
    return false;
  const StepRange range = rangeOf(s_, r);
  const bool isLater = random_.chance(0.5);
  const uint32_t places = 1 + static_cast<uint32_t>(12 * random_.exponential());
  const int64_t water = state_.budget() - state_.budget() / 5;
  int64_t before = 0, after = 0;
  auto above = [&](StepId x) { return std::max<int64_t>(0, s_.profile().liveAt(x) - water); };
  state_.addWork(places);

  // It passes the steps from `begin` to `end`.
  StepId begin, end, x = r;
  for (uint32_t i = 0; i < places; ++i) {
    x = isLater ? s_.next(x) : s_.previous(x);
    if (!x || s_.position(x) >= range.high || s_.position(x) < range.low)
      break;
    before += above(x);
    (isLater ? end : begin) = x;
    if (StepId &other = isLater ? begin : end; !other)
      other = x;
  }
  if (!begin || (!isLater && !mayStand(s_, s_.taskOf(r), begin)))
    return false;
  before += above(r);
  StepId fresh = edits_.move(r, isLater ? s_.next(end) : begin);
  StepId from = isLater ? begin : fresh, to = isLater ? fresh : end;
  for (x = from;; x = s_.next(x)) {
    after += above(x);
    if (x == to)
      break;
  }
  return after < before || (after == before && random_.chance(0.5)) ||
         random_.chance(std::exp(-double(after - before) / (0.02 * double(state_.budget()))));
}

bool RandomMoves::exchangeForm() {
  if (!g_.hasAlternatives())
    return false;
  const TaskId form(g_.numOriginal + random_.below(g_.tasks.size() - g_.numOriginal));
  const StorageId made = g_.tasks[form].firstMade;
  if (g_.tasks[form].transfer != StorageGraph::Task::Transfer::None ||
      g_.storages[made].maker == form)
    return false;
  const EditableSchedule::Instances &instances = s_.instances(made);
  if (instances.empty()) // nothing that runs reads it
    return false;
  StepId r = s_.maker(instances[random_.below(instances.size())]);
  const TaskId own = g_.storages[made].maker, was = s_.taskOf(r), now = was == form ? own : form;
  const StorageGraph::Task &to = g_.tasks[now], &from = g_.tasks[was];
  if (to.firstMade != from.firstMade || to.numMade != from.numMade ||
      !evictor_.rematerializer().mayExchange(r) || (!to.mayRepeat && edits_.numSteps(own) > 1) ||
      !canRun(now, r))
    return false;
  edits_.insert(now, r);
  edits_.remove(r);
  edits_.removeUnread();
  return true;
}

// --- Recreation

// The eviction with the largest fall of the excess for its cost, of a few at the peak.
std::vector<EditLog::Edit> RandomMoves::bestAtPeak(int64_t excessBefore, double costLimit) {
  // On a large graph, more rounds gain more than a better choice in each.
  const int numTries = g_.isLarge() ? 4 : 10;
  const double costBefore = state_.cost();
  std::vector<EditLog::Edit> best;
  double bestScore = 0;
  EvictOptions o;
  o.costLimit = costLimit;
  o.isGreedy = random_.chance(0.7);
  const size_t logSize = edits_.size();
  const StepId peak = s_.profile().peakStep();
  for (int attempt = 0, tried = 0; attempt < 8 * numTries && tried < numTries; ++attempt) {
    state_.addWork(1 + state_.candidates().size() / kPerLook);
    IdleInterval idle = randomIntervalAt(peak);
    if (!idle)
      continue;
    ++tried;
    o.extendOperands = random_.chance(0.3);
    o.method = evictor_.rematerializer().randomMethod(s_.storageOf(idle.instance));
    if (evictor_.evict(idle, o)) {
      int64_t gain = excessBefore - state_.excess();
      double score = gain <= 0 ? 0 : double(gain) / std::max(state_.cost() - costBefore, 1e-6);
      if (score > bestScore) {
        bestScore = score;
        best = edits_.since(logSize);
      }
    }
    edits_.undo(logSize);
  }
  return best;
}

bool RandomMoves::recreate(double costLimit) {
  constexpr int kMostRounds = 200;
  if (state_.candidates().empty())
    return state_.fits();
  for (int round = 0; round < kMostRounds; ++round) {
    const int64_t excess = state_.excess();
    if (excess == 0)
      return true;
    if (state_.cost() > costLimit)
      return false;
    const std::vector<EditLog::Edit> best = bestAtPeak(excess, costLimit);
    if (best.empty())
      return false;
    edits_.redo(best);
  }
  return false;
}

} // namespace isthmus::plan
