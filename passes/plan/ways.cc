// The ways in which an editor has a storage again that is gone: by its own op, by another form of
// it, or from the host.

#include "passes/plan/editor.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// An end of a copy is moved so often at most, each time by as much as is waited for it.
constexpr int kMostTries = 3;

} // namespace

uint32_t Editor::numWays(uint32_t storage) const {
  uint32_t n = g_.ops[g_.storages[storage].maker].mayRepeat;
  for (uint32_t op : g_.others(storage))
    n += g_.isCopyBack(g_.ops[op]) ? 2 : 1;
  return n;
}

Editor::Way Editor::way(uint32_t storage, uint32_t k) const {
  const uint32_t own = g_.storages[storage].maker;
  if (g_.ops[own].mayRepeat && k-- == 0)
    return {own};
  for (uint32_t op : g_.others(storage)) {
    if (k-- == 0)
      return {op};
    if (g_.isCopyBack(g_.ops[op]) && k-- == 0)
      return {op, /*isTight=*/true};
  }
  return {};
}

uint32_t Editor::someWay(uint32_t storage) {
  return g_.others(storage).empty() || random.chance(0.3) ? How::kAnyWay
                                                          : random.below(numWays(storage));
}

// What it costs, roughly: its own run, and those of what it reads that is gone. Of the bus nobody
// knows, so half of its time.
double Editor::guess(const Way &way, RunId before) const {
  const StorageGraph::Op &o = g_.ops[way.op];
  if (g_.isCopyBack(o))
    return o.transferTime / 2;
  double cost = o.cost;
  for (uint32_t s : o.reads) {
    CopyId c = t_.newestBefore(s, before);
    if (c == kNone)
      return 1e300;
    if (t_.position(t_.lastUse(c)) < t_.position(before) && !isSmall(s))
      cost += makingCost(s);
  }
  return cost;
}

Editor::Way Editor::choose(uint32_t storage, RunId before, const How &how) {
  if (g_.others(storage).empty())
    return {g_.storages[storage].maker};
  const uint32_t n = numWays(storage);
  if (!how.isGreedy && random.chance(0.3))
    return way(storage, random.below(n));
  Way best;
  double least = 1e301;
  for (uint32_t k = 0; k < n; ++k)
    if (Way w = way(storage, k); guess(w, before) < least) {
      least = guess(w, before);
      best = w;
    }
  return best;
}

bool Editor::comeBack(uint32_t storage, RunId before, const How &how, int depth) {
  Way w =
      depth == 0 && how.way != How::kAnyWay ? way(storage, how.way) : choose(storage, before, how);
  return g_.isCopyBack(g_.ops[w.op]) ? fetch(w, before, how) : bringBack(w.op, before, how, depth);
}

// In an order by phases, optional ops of the backward phase have to wait for that.
bool Editor::isTooEarly(uint32_t op, RunId before) const {
  if (g_.order != Order::Phases || !g_.isOptional(op) || !g_.ops[op].isBackward)
    return false;
  if (g_.firstBackward == kNone)
    return true;
  CopyId first = t_.copies(g_.ops[g_.firstBackward].firstMade).front();
  return t_.position(before) <= t_.position(t_.maker(first));
}

// The last run before `before` that makes or reads the storage's newest copy; kNone if there is
// none.
Editor::RunId Editor::lastUseBefore(uint32_t storage, RunId before) const {
  CopyId c = t_.newestBefore(storage, before);
  if (c == kNone)
    return kNone;
  RunId last = t_.maker(c);
  for (RunId r : t_.readers(c)) {
    if (t_.position(r) >= t_.position(before))
      break;
    last = r;
  }
  return last;
}

// A copy to the host, as soon after the last use as it is complete. If there is no room to keep
// what is copied until then, and it `isTight`, the wait for it is a stall.
Editor::RunId Editor::copyOut(uint32_t op, RunId before, bool isTight) {
  RunId after = kNone;
  for (uint32_t s : g_.ops[op].reads) {
    RunId use = lastUseBefore(s, before);
    if (use == kNone)
      return kNone;
    if (after == kNone || t_.position(use) > t_.position(after))
      after = use;
  }
  const uint32_t token = g_.ops[op].firstMade;
  const double costBefore = cost();
  RunId r = insert(op, t_.next(after));
  // It is copied later anyway: earlier, then.
  if (CopyId later = t_.oldestAfter(token, r); later != kNone) {
    if (t_.maker(later) == before)
      return kNone; // what it reads would be had from itself
    remove(t_.maker(later));
  }
  for (int i = 0; i < kMostTries; ++i) {
    double late = cost() - costBefore;
    RunId place = r;
    for (RunId x = t_.next(r); late > 1e-9 && x != before; x = t_.next(x)) {
      ++t_.work;
      if (isTight && t_.liveAt(x) > budget_)
        break;
      late -= g_.ops[t_.opOf(x)].cost;
      place = t_.next(x);
    }
    if (place == r)
      break;
    r = move(r, place);
  }
  return r;
}

// From the host, just before `before` as far as reads go; the copy starts as much earlier as it
// takes, or, where it `isTight`, as there is room for.
bool Editor::fetch(const Way &way, RunId before, const How &how) {
  const StorageGraph::Op &o = g_.ops[way.op];
  const double costBefore = cost();
  const uint32_t token = o.reads[0];
  RunId after = kNone; // the run that the copy back has to come after
  if (CopyId onHost = t_.newestBefore(token, before); onHost != kNone) {
    after = t_.maker(onHost);
  } else {
    after = copyOut(g_.storages[token].maker, before, way.isTight);
    if (after == kNone)
      return false;
  }
  for (uint32_t s = o.firstMade; s < o.firstMade + o.numMade; ++s)
    if (RunId use = lastUseBefore(s, before); use != kNone && t_.position(use) > t_.position(after))
      after = use;
  int64_t bytes = 0;
  for (uint32_t s = o.firstMade; s < o.firstMade + o.numMade; ++s)
    bytes += g_.storages[s].bytes;
  if (isTooEarly(way.op, before))
    return false;
  RunId back = insert(way.op, before);
  for (int i = 0; i < kMostTries; ++i) {
    double late = cost() - costBefore;
    if (late <= 1e-9)
      break;
    RunId place = back;
    for (RunId x = t_.previous(back); x != kNone && x != after && late > 0; x = t_.previous(x)) {
      ++t_.work;
      if ((way.isTight && t_.liveAt(x) + bytes > budget_) || isTooEarly(way.op, x))
        break;
      late -= g_.ops[t_.opOf(x)].cost;
      place = x;
    }
    if (place == back)
      break;
    back = move(back, place);
  }
  return t_.runCost() <= how.costLimit;
}

bool Editor::exchangeSome() {
  if (!g_.hasOptional())
    return false;
  const uint32_t op = g_.numDefault + random.below(g_.ops.size() - g_.numDefault);
  const StorageGraph::Op &o = g_.ops[op];
  if (o.bus != StorageGraph::Op::Bus::None)
    return false;
  const std::vector<CopyId> &copies = t_.copies(o.firstMade);
  if (copies.empty()) // no form that runs reads it
    return false;
  RunId r = t_.maker(copies[random.below(copies.size())]);
  const uint32_t own = g_.storages[o.firstMade].maker, was = t_.opOf(r), now = was == op ? own : op;
  const StorageGraph::Op &to = g_.ops[now], &from = g_.ops[was];
  if (to.firstMade != from.firstMade || to.numMade != from.numMade || isTooEarly(now, r) ||
      (!to.mayRepeat && runsOf(own) > 1))
    return false;
  for (uint32_t s : to.reads)
    if (t_.newestBefore(s, r) == kNone)
      return false;
  insert(now, r);
  remove(r);
  sweepUnread();
  return true;
}

} // namespace isthmus::plan
