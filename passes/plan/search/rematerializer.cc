#include "passes/plan/search/rematerializer.h"

#include "passes/plan/search/step_order.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// An eviction that needs more edits or deeper chains than these is given up.
constexpr size_t kMostEdits = 200;
constexpr int kDeepest = 60;
// An end of a transfer is moved at most this often, each time by the remaining stall.
constexpr int kMostMoves = 3;

} // namespace

// --- Methods

uint32_t Rematerializer::numMethods(StorageId s) const {
  uint32_t n = g_.tasks[g_.storages[s].maker].mayRepeat;
  for (TaskId t : g_.alternatives(s))
    n += g_.isPrefetch(g_.tasks[t]) ? 2 : 1;
  return n;
}

Method Rematerializer::method(StorageId s, uint32_t k) const {
  const TaskId own = g_.storages[s].maker;
  if (g_.tasks[own].mayRepeat && k-- == 0)
    return {own};
  for (TaskId t : g_.alternatives(s)) {
    if (k-- == 0)
      return {t};
    if (g_.isPrefetch(g_.tasks[t]) && k-- == 0)
      return {t, /*isTight=*/true};
  }
  return {};
}

uint32_t Rematerializer::randomMethod(StorageId s) {
  return g_.alternatives(s).empty() || state_.random.chance(0.3)
             ? EvictOptions::kBestMethod
             : state_.random.below(numMethods(s));
}

// The cost of the method's own step and of one step for each operand that is not live. How much of
// a transfer will be hidden is not known, so half of its time counts.
double Rematerializer::guessCost(const Method &m, StepId before) const {
  const StorageGraph::Task &t = g_.tasks[m.task];
  if (g_.isPrefetch(t))
    return t.transferTime / 2;
  double cost = t.cost;
  for (StorageId s : t.reads) {
    InstanceId c = s_.newestBefore(s, before);
    if (!c)
      return 1e300;
    if (s_.isBefore(s_.lastUse(c), before) && !state_.isSmall(s))
      cost += state_.makingCost(s);
  }
  return cost;
}

Method Rematerializer::choose(StorageId s, StepId before, const EvictOptions &o) {
  if (g_.alternatives(s).empty())
    return {g_.storages[s].maker};
  const uint32_t n = numMethods(s);
  if (!o.isGreedy && state_.random.chance(0.3))
    return method(s, state_.random.below(n));
  Method best;
  double least = 1e301;
  for (uint32_t k = 0; k < n; ++k)
    if (Method m = method(s, k); guessCost(m, before) < least) {
      least = guessCost(m, before);
      best = m;
    }
  return best;
}

bool Rematerializer::rematerialize(StorageId s, StepId before, const EvictOptions &o, int depth) {
  Method m = depth == 0 && o.method != EvictOptions::kBestMethod ? method(s, o.method)
                                                                 : choose(s, before, o);
  return g_.isPrefetch(g_.tasks[m.task]) ? prefetch(m, before, o)
                                         : recompute(m.task, before, o, depth);
}

// If alternatives make single results, not every result has an older instance.
bool Rematerializer::isRemovable(StepId r) const {
  if (g_.hasAlternatives())
    for (InstanceId c : s_.made(r))
      if (!s_.readers(c).empty() && !s_.newestBefore(s_.storageOf(c), r))
        return false;
  return true;
}

// --- Recomputation

bool Rematerializer::recompute(TaskId t, StepId before, const EvictOptions &o, int depth) {
  const StorageGraph::Task &task = g_.tasks[t];
  if (!task.mayRepeat || !mayStand(s_, t, before) || depth > kDeepest ||
      edits_.size() > logSizeBefore_ + kMostEdits || s_.stepCost() + task.cost > o.costLimit)
    return false;
  if (!provideAll(task.reads, before, o, depth))
    return false;
  edits_.insert(t, before);
  return s_.stepCost() <= o.costLimit;
}

bool Rematerializer::provideAll(const StorageGraph::Reads &reads, StepId before,
                                const EvictOptions &o, int depth) {
  return std::all_of(reads.begin(), reads.end(),
                     [&](StorageId s) { return provideOperand(s, before, o, depth); });
}

// An operand that is not live either stays live from its last use, if there is room for it, or is
// rematerialized in turn.
bool Rematerializer::provideOperand(StorageId s, StepId before, const EvictOptions &o, int depth) {
  Random &random = state_.random;
  InstanceId c = s_.newestBefore(s, before);
  if (!c)
    return g_.isAlternative(g_.storages[s].maker) && makeHelper(s, before, o, depth);
  if (!s_.isBefore(s_.lastUse(c), before) || state_.isSmall(s) || !g_.canRematerialize(s))
    return true;
  InstanceId later = s_.oldestAfter(s, before);
  if (later && isRemovable(s_.maker(later)) && (o.isGreedy || random.chance(0.85))) {
    edits_.remove(s_.maker(later)); // it is made later anyway: make it earlier
    return rematerialize(s, before, o, depth + 1);
  }
  const bool hasRoom =
      s_.profile().maxBetween(s_.lastUse(c), before) + g_.storages[s].bytes <= state_.budget();
  if ((o.extendOperands && depth == 0) || (hasRoom && (o.isGreedy || random.chance(0.7)))) {
    extended.push_back(s);
    return true;
  }
  return (hasRoom && !random.chance(0.9)) || rematerialize(s, before, o, depth + 1);
}

// Makes a helper's storage, which only alternatives read: just before `before` if the helper's
// operands are live beyond that or have no instance, otherwise right after their last use.
bool Rematerializer::makeHelper(StorageId s, StepId before, const EvictOptions &o, int depth) {
  const TaskId t = g_.storages[s].maker;
  const StorageGraph::Reads &reads = g_.tasks[t].reads;
  const bool isHere = std::all_of(reads.begin(), reads.end(), [&](StorageId read) {
    InstanceId c = s_.newestBefore(read, before);
    return !c || s_.isBefore(before, s_.lastUse(c));
  });
  return isHere ? recompute(t, before, o, depth + 1) : bool(insertAtLastUse(t, before));
}

// Inserts the task right after the last use of its operands before `before`. None if an operand has
// no instance there, or if the task may not stand there.
StepId Rematerializer::insertAtLastUse(TaskId t, StepId before) {
  StepId after;
  for (StorageId s : g_.tasks[t].reads) {
    StepId use = lastUseBefore(s, before);
    if (!use)
      return {};
    if (!after || s_.isBefore(after, use))
      after = use;
  }
  return after && mayStand(s_, t, s_.next(after)) ? edits_.insert(t, s_.next(after)) : StepId();
}

// --- Other forms of the reader

// The cost of the form's helper operands that have no instance.
double Rematerializer::helpersCost(TaskId form, StepId before) const {
  double cost = 0;
  for (StorageId s : g_.tasks[form].reads)
    if (TaskId maker = g_.storages[s].maker; g_.isAlternative(maker) && !s_.newestBefore(s, before))
      cost += g_.tasks[maker].cost;
  return cost;
}

// In a fixed order a first step stays: without it, a later step of the op would be its first.
bool Rematerializer::mayExchange(StepId r) const {
  return g_.order != Order::Fixed || !s_.isFirst(r);
}

// The cost of rematerializing the storage for the reader's present form.
double Rematerializer::costInstead(StorageId s, StepId reader, const EvictOptions &o) {
  const Method m = choose(s, reader, o);
  return state_.prefersTransfers && g_.isPrefetch(g_.tasks[m.task]) ? 0 : guessCost(m, reader);
}

bool Rematerializer::exchangeReader(StepId reader, StorageId s, const EvictOptions &o) {
  if (!g_.hasForms() || reader == s_.end() || !mayExchange(reader))
    return false;
  const TaskId was = s_.taskOf(reader), own = g_.storages[g_.tasks[was].firstMade].maker;
  const auto [begin, end] = g_.formsOf(own);
  for (auto it = begin; it != end; ++it) {
    const StorageGraph::Task &t = g_.tasks[it->second];
    const bool readsIt = std::find(t.reads.begin(), t.reads.end(), s) != t.reads.end();
    if (it->second == was || readsIt || !mayStand(s_, it->second, reader) ||
        (!t.mayRepeat && edits_.numSteps(own) > 1))
      continue;
    const double cost = t.cost - g_.tasks[was].cost + helpersCost(it->second, reader);
    const bool isBetter =
        o.isGreedy ? cost <= costInstead(s, reader, o) : state_.random.chance(0.5);
    if (isBetter && exchange(reader, it->second, o))
      return true;
  }
  return false;
}

bool Rematerializer::exchange(StepId r, TaskId form, const EvictOptions &o) {
  const EditLog::Mark mark = edits_.mark();
  const size_t numExtended = extended.size();
  if (provideAll(g_.tasks[form].reads, r, o, 0)) {
    edits_.insert(form, r);
    edits_.remove(r);
    if (s_.stepCost() <= o.costLimit)
      return true;
  }
  edits_.undoTo(mark);
  extended.resize(numExtended);
  return false;
}

// --- Transfers

// The last step before `before` that makes or reads the storage's newest instance; none without an
// instance.
StepId Rematerializer::lastUseBefore(StorageId s, StepId before) const {
  InstanceId c = s_.newestBefore(s, before);
  if (!c)
    return {};
  StepId last = s_.maker(c);
  for (StepId r : s_.readers(c)) {
    if (!s_.isBefore(r, before))
      break;
    last = r;
  }
  return last;
}

// Inserts an offload whose wait comes as soon after the last use as the transfer is complete. If
// `isTight` and there is no room to keep the storage until then, the wait is a stall.
StepId Rematerializer::offload(TaskId t, StepId before, bool isTight) {
  const double costBefore = state_.cost();
  StepId r = insertAtLastUse(t, before);
  if (!r)
    return {};
  if (InstanceId later = s_.oldestAfter(g_.tasks[t].firstMade, r)) {
    if (s_.maker(later) == before)
      return {};                    // its operands would be made of its own result
    edits_.remove(s_.maker(later)); // it is offloaded later anyway: offload it earlier
  }
  return waitLater(r, before, isTight, costBefore);
}

StepId Rematerializer::waitLater(StepId r, StepId before, bool isTight, double costBefore) {
  for (int i = 0; i < kMostMoves; ++i) {
    double stall = state_.cost() - costBefore;
    StepId place = r;
    for (StepId x = s_.next(r); stall > 1e-9 && x != before; x = s_.next(x)) {
      state_.addWork(1);
      if (isTight && s_.profile().liveAt(x) > state_.budget())
        break;
      stall -= s_.task(x).cost;
      place = s_.next(x);
    }
    if (place == r)
      break;
    r = edits_.move(r, place);
  }
  return r;
}

// Inserts a prefetch whose wait comes just before `before`. It starts earlier by the time that it
// takes or, if its method `isTight`, as early as there is room for it.
bool Rematerializer::prefetch(const Method &m, StepId before, const EvictOptions &o) {
  const StorageGraph::Task &t = g_.tasks[m.task];
  const double costBefore = state_.cost();
  const StorageId onHost = t.reads[0];
  StepId after; // the step that the start has to come after
  if (InstanceId c = s_.newestBefore(onHost, before)) {
    after = s_.maker(c);
  } else {
    after = offload(g_.storages[onHost].maker, before, m.isTight);
    if (!after)
      return false;
  }
  for (StorageId s : t.made())
    if (StepId use = lastUseBefore(s, before); use && s_.isBefore(after, use))
      after = use;
  if (!mayStand(s_, m.task, before))
    return false;
  startEarlier(edits_.insert(m.task, before), after, m, costBefore);
  return s_.stepCost() <= o.costLimit;
}

StepId Rematerializer::startEarlier(StepId fetch, StepId after, const Method &m,
                                    double costBefore) {
  int64_t bytes = 0;
  for (StorageId s : g_.tasks[m.task].made())
    bytes += g_.storages[s].bytes;
  for (int i = 0; i < kMostMoves; ++i) {
    double stall = state_.cost() - costBefore;
    if (stall <= 1e-9)
      break;
    StepId place = fetch;
    for (StepId x = s_.previous(fetch); x && x != after && stall > 0; x = s_.previous(x)) {
      state_.addWork(1);
      if ((m.isTight && s_.profile().liveAt(x) + bytes > state_.budget()) ||
          !mayStand(s_, m.task, x))
        break;
      stall -= s_.task(x).cost;
      place = x;
    }
    if (place == fetch)
      break;
    fetch = edits_.move(fetch, place);
  }
  return fetch;
}

} // namespace isthmus::plan
