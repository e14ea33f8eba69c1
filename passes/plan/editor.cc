#include "passes/plan/editor.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {
namespace {

// The smallest storages always stay, as bringing them back is not worth a run: of at most this
// share of the budget each, and as many as together make this share of it where memory is tightest.
constexpr int64_t kSmallShare = 2000, kAllSmallShare = 200;
// A drop that needs more runs than this is given up.
constexpr size_t kMostEdits = 200;
constexpr int kDeepest = 60;
// A look at a random storage takes a step for each so many that there are: the more there are, the
// fewer of them are in the processor's cache.
constexpr size_t kPerLook = 16384;

} // namespace

Editor::Editor(const StorageGraph &g, int64_t budget, uint64_t seed, bool mayReorder)
    : random{seed}, t_(g), g_(g), mayReorder_(mayReorder) {
  placeInRepeated_.assign(g.ops.size(), kNone);
  const uint32_t peak = t_.position(t_.peakRun());
  for (uint32_t s = 0; s < g.storages.size(); ++s) {
    if (t_.copies(s).empty())
      continue; // on the host
    CopyId c = t_.copies(s).front();
    if (t_.position(t_.maker(c)) <= peak && t_.position(t_.lastUse(c)) >= peak)
      bytesAtPeak_.push_back(g.storages[s].bytes);
  }
  std::sort(bytesAtPeak_.begin(), bytesAtPeak_.end());
  setBudget(budget);
}

int64_t Editor::smallest() const {
  int64_t room = budget_ / kAllSmallShare;
  for (int64_t bytes : bytesAtPeak_)
    if (bytes > budget_ / kSmallShare || (room -= bytes) < 0)
      return std::max<int64_t>(1, std::min(bytes, budget_ / kSmallShare));
  return std::max<int64_t>(1, budget_ / kSmallShare);
}

void Editor::setBudget(int64_t bytes) {
  budget_ = bytes;
  leastBytes_ = smallest();
  candidates_.clear();
  for (uint32_t s = 0; s < g_.storages.size(); ++s)
    if (!isSmall(s) && g_.mayComeBack(s))
      candidates_.push_back(s);
}

void Editor::assign(const std::vector<uint32_t> &ops) {
  t_.assign(ops);
  log_.clear();
  suspects_.clear();
  for (uint32_t i = 0; i < g_.ops.size(); ++i)
    noteRepeats(i);
}

void Editor::noteRepeats(uint32_t op) {
  op = g_.storages[g_.ops[op].firstMade].maker; // of which it may be another form
  bool is = runsOf(op) >= 2;
  uint32_t &place = placeInRepeated_[op];
  if (is && place == kNone) {
    place = static_cast<uint32_t>(repeated_.size());
    repeated_.push_back(op);
  } else if (!is && place != kNone) {
    uint32_t last = repeated_.back();
    repeated_[place] = last;
    placeInRepeated_[last] = place;
    repeated_.pop_back();
    place = kNone;
  }
}

// --- Single edits

Editor::RunId Editor::insert(uint32_t op, RunId before) {
  RunId r = t_.insert(op, before);
  log_.push_back({true, op, r, before});
  noteRepeats(op);
  return r;
}

void Editor::remove(RunId r) {
  uint32_t op = t_.opOf(r);
  log_.push_back({false, op, r, t_.next(r)});
  for (uint32_t k = 0; k < g_.ops[op].reads.size(); ++k)
    suspects_.push_back(t_.maker(t_.readCopy(r, k)));
  t_.remove(r);
  noteRepeats(op);
}

// In reverse, so that every run gets its number back: the timeline gives numbers out last in, first
// out.
void Editor::undo(size_t to) {
  while (log_.size() > to) {
    Edit e = log_.back();
    log_.pop_back();
    if (e.inserted)
      t_.remove(e.run);
    else
      t_.insert(e.op, e.before);
    noteRepeats(e.op);
  }
  suspects_.clear();
}

// Takes out runs that nothing reads any more.
void Editor::sweepUnread() {
  while (!suspects_.empty()) {
    RunId r = suspects_.back();
    suspects_.pop_back();
    bool isPlaced = t_.position(r) != kNone && r != t_.end();
    if (isPlaced && t_.isUnread(r) && (mayReorder_ || !t_.isFirst(r) || g_.isOptional(t_.opOf(r))))
      remove(r);
  }
}

// --- Gaps

bool Editor::isDroppable(const Gap &gap) const { return gap.copy != kNone; }

bool Editor::mayTakeOver(RunId r, uint32_t storage) const {
  if (r == t_.end())
    return false;
  const auto &pairs = g_.ops[t_.opOf(r)].donations;
  return std::any_of(pairs.begin(), pairs.end(), [&](const auto &p) { return p.read == storage; });
}

int64_t Editor::highestIn(const Gap &gap) const {
  const std::vector<RunId> &readers = t_.readers(gap.copy);
  RunId from = gap.reader ? readers[gap.reader - 1] : t_.maker(gap.copy);
  int64_t most = t_.maxBetween(from, readers[gap.reader]);
  return mayTakeOver(from, t_.storageOf(gap.copy)) ? std::max(most, t_.liveAt(from)) : most;
}

Editor::Gap Editor::gapAt(uint32_t storage, RunId run) const {
  CopyId c = t_.newestBefore(storage, run);
  if (c == kNone)
    return {};
  const std::vector<RunId> &readers = t_.readers(c);
  uint32_t at = t_.position(run);
  if (readers.empty() || t_.position(readers.back()) <= at)
    return {};
  const uint32_t k = t_.readerFrom(c, at);
  if (readers[k] != run)
    return {c, k};
  return mayTakeOver(run, storage) ? Gap{c, k + 1} : Gap{};
}

Editor::Gap Editor::widestGap(CopyId c) const {
  const std::vector<RunId> &readers = t_.readers(c);
  t_.work += readers.size() / 64;
  Gap widest;
  uint32_t width = 0, last = t_.position(t_.maker(c));
  for (uint32_t k = 0; k < readers.size(); ++k) {
    uint32_t here = t_.position(readers[k]);
    if (here - last > width) {
      width = here - last;
      widest = {c, k};
    }
    last = here;
  }
  return widest;
}

// Runs `op` before `before`, and first whatever it reads that is gone by then and shall not stay.
bool Editor::bringBack(uint32_t op, RunId before, const How &how, int depth) {
  const StorageGraph::Op &o = g_.ops[op];
  if (!o.mayRepeat || isTooEarly(op, before) || depth > kDeepest ||
      log_.size() > dropMark_ + kMostEdits || t_.runCost() + o.cost > how.costLimit)
    return false;
  for (uint32_t s : o.reads) {
    CopyId c = t_.newestBefore(s, before);
    if (c == kNone)
      return false;
    bool isThere = t_.position(t_.lastUse(c)) >= t_.position(before);
    if (isThere || isSmall(s) || !g_.mayComeBack(s))
      continue;
    CopyId later = t_.oldestAfter(s, before);
    if (later != kNone && isRemovable(t_.maker(later)) && (how.isGreedy || random.chance(0.85))) {
      remove(t_.maker(later)); // it is made again anyway: earlier, then
      if (!comeBack(s, before, how, depth + 1))
        return false;
      continue;
    }
    bool hasRoom = t_.maxBetween(t_.lastUse(c), before) + g_.storages[s].bytes <= budget_;
    if ((how.extend && depth == 0) || (hasRoom && (how.isGreedy || random.chance(0.7)))) {
      extended_.push_back(s);
      continue;
    }
    if ((!hasRoom || random.chance(0.9)) && !comeBack(s, before, how, depth + 1))
      return false;
  }
  insert(op, before);
  return t_.runCost() <= how.costLimit;
}

bool Editor::makeAgain(const Gap &gap, const How &how) {
  dropMark_ = log_.size();
  RunId before = t_.readers(gap.copy)[gap.reader];
  if (gap.reader == 0)
    suspects_.push_back(t_.maker(gap.copy)); // it is only made later
  if (!comeBack(t_.storageOf(gap.copy), before, how, 0))
    return false;
  sweepUnread();
  return true;
}

bool Editor::drop(const Gap &gap, const How &how) {
  extended_.clear();
  int64_t excessBefore = how.extend ? excess() : 0;
  double costBefore = cost();
  if (!makeAgain(gap, how))
    return false;
  if (how.extend)
    dropSiblings(how, excessBefore, costBefore);
  return true;
}

// One drop whose operands live on may gain nothing, and many that share them much: the outputs of a
// dense block's concatenations, whose operands are all the block's layers.
void Editor::dropSiblings(const How &how, int64_t excessBefore, double costBefore) {
  constexpr int kMostTries = 40;
  int64_t gain = excessBefore - excess();
  double added = cost() - costBefore;
  int tries = 0;
  for (size_t i = 0; i < extended_.size() && tries < kMostTries; ++i) {
    uint32_t s = extended_[i];
    if (std::find(extended_.begin(), extended_.begin() + i, s) != extended_.begin() + i)
      continue;
    if (t_.copies(s).empty())
      continue;
    std::vector<RunId> users = t_.readers(t_.copies(s).front());
    for (RunId user : users) {
      if (user == t_.end() || t_.position(user) == kNone)
        continue;
      const StorageGraph::Op &o = g_.ops[t_.opOf(user)];
      for (uint32_t m = 0; m < o.numMade && o.mayRepeat && !o.isBackward; ++m) {
        size_t before = mark(), wasExtended = extended_.size();
        if (t_.position(user) == kNone)
          break;
        if (!dropSibling(user, m, how)) {
          undo(before);
          extended_.resize(wasExtended);
          continue;
        }
        ++tries;
        int64_t newGain = excessBefore - excess();
        double newAdded = cost() - costBefore;
        bool isBetter =
            newGain > gain && (gain <= 0 || double(newGain) * added >= double(gain) * newAdded);
        if (isBetter) {
          gain = newGain;
          added = newAdded;
        } else {
          undo(before);
          extended_.resize(wasExtended);
        }
      }
    }
  }
}

bool Editor::dropSibling(RunId user, uint32_t made, const How &first) {
  How how = first;
  how.way = How::kAnyWay;
  constexpr uint32_t kWide = 64; // positions; what is read again soon is no sibling
  CopyId copy = t_.made(user, made);
  if (isSmall(t_.storageOf(copy)))
    return false;
  Gap gap = widestGap(copy);
  if (!isDroppable(gap))
    return false;
  const std::vector<RunId> &readers = t_.readers(copy);
  uint32_t from = t_.position(gap.reader ? readers[gap.reader - 1] : user);
  return t_.position(readers[gap.reader]) - from >= kWide && makeAgain(gap, how);
}

// --- Random edits

Editor::RunId Editor::someRepeat(uint32_t op) {
  const std::vector<CopyId> &copies = t_.copies(manyOf(op));
  return t_.maker(copies[1 + random.below(copies.size() - 1)]);
}

uint32_t Editor::manyOf(uint32_t op) const {
  const StorageGraph::Op &o = g_.ops[op];
  uint32_t most = o.firstMade;
  for (uint32_t s = o.firstMade; s < o.firstMade + o.numMade && g_.hasOptional(); ++s)
    if (t_.copies(s).size() > t_.copies(most).size())
      most = s;
  return most;
}

// Where other forms make single results there need not be an older copy of all that it makes.
bool Editor::isRemovable(RunId r) const {
  const StorageGraph::Op &o = g_.ops[t_.opOf(r)];
  for (uint32_t k = 0; k < o.numMade && g_.hasOptional(); ++k)
    if (!t_.readers(t_.made(r, k)).empty() && t_.newestBefore(o.firstMade + k, r) == kNone)
      return false;
  return true;
}

// A first guess, cheap: what it makes would have to live on from the older copy.
bool Editor::hasRoomWithout(RunId r) const {
  const StorageGraph::Op &o = g_.ops[t_.opOf(r)];
  int64_t need = 0;
  for (uint32_t k = 0; k < o.reads.size(); ++k)
    if (t_.lastUse(t_.readCopy(r, k)) == r)
      need -= g_.storages[o.reads[k]].bytes;
  RunId from = kNone;
  for (uint32_t k = 0; k < o.numMade; ++k) {
    if (t_.readers(t_.made(r, k)).empty())
      continue;
    RunId last = t_.lastUse(t_.newestBefore(o.firstMade + k, r));
    if (from == kNone || t_.position(last) > t_.position(from))
      from = last;
    need += g_.storages[o.firstMade + k].bytes;
  }
  return from == kNone || t_.maxBetween(from, r) + need <= budget_;
}

bool Editor::removeSome() {
  if (repeated_.empty())
    return false;
  RunId r = someRepeat(repeated_[random.below(repeated_.size())]);
  if (!isRemovable(r) || !hasRoomWithout(r))
    return false;
  remove(r);
  sweepUnread();
  return true;
}

bool Editor::dropSome(double costLimit) {
  if (candidates_.empty())
    return false;
  const std::vector<CopyId> &copies = t_.copies(candidates_[random.below(candidates_.size())]);
  if (copies.empty()) // no form that runs reads it
    return false;
  CopyId c = copies[random.below(copies.size())];
  if (t_.readers(c).empty())
    return false;
  Gap gap = random.chance(0.6) ? widestGap(c) : Gap{c, random.below(t_.readers(c).size())};
  How how;
  how.way = someWay(t_.storageOf(c));
  how.costLimit = costLimit;
  how.isGreedy = false;
  return isDroppable(gap) && drop(gap, how);
}

bool Editor::ruin() {
  if (repeated_.empty())
    return false;
  uint32_t op = repeated_[random.below(repeated_.size())];
  int count = 1 + static_cast<int>(1.5 * random.exponential());
  for (int i = 0; i < count; ++i) {
    if (runsOf(op) >= 2) {
      RunId r = someRepeat(op);
      if (mayReorder_ && random.chance(0.3))
        raiseReaders(r);
      else if (isRemovable(r))
        remove(r);
      sweepUnread();
    }
    if (repeated_.empty())
      return true;
    // The next one: mostly the nearest of a few.
    uint32_t nearest = kNone, distance = ~0u;
    for (int k = random.chance(0.8) ? 6 : 1; k > 0; --k) {
      uint32_t other = repeated_[random.below(repeated_.size())];
      uint32_t d = other > op ? other - op : op - other;
      if (d && d < distance) {
        distance = d;
        nearest = other;
      }
    }
    if (nearest != kNone)
      op = nearest;
  }
  return true;
}

// Runs the readers of what a repeated run makes where the older copy still is.
void Editor::raiseReaders(RunId r) {
  const StorageGraph::Op &o = g_.ops[t_.opOf(r)];
  for (uint32_t k = 0; k < o.numMade; ++k) {
    CopyId old = t_.newestBefore(o.firstMade + k, r);
    if (old == kNone)
      continue;
    std::vector<RunId> readers = t_.readers(t_.made(r, k));
    for (RunId reader : readers) {
      if (reader == t_.end() || runsOf(t_.opOf(reader)) != 1)
        continue;
      RunId place = t_.next(t_.lastUse(old));
      bool can = t_.position(place) < t_.position(reader);
      for (uint32_t s : g_.ops[t_.opOf(reader)].reads)
        can = can && t_.newestBefore(s, place) != kNone;
      if (!can)
        continue;
      insert(t_.opOf(reader), place);
      remove(reader);
    }
  }
}

// Where a run may go without changing what reads what.
Editor::Range Editor::rangeOf(RunId r) const {
  const StorageGraph::Op &o = g_.ops[t_.opOf(r)];
  Range range{0, t_.position(t_.end())};
  auto notBefore = [&](uint32_t p) { range.low = std::max(range.low, p); };
  auto notAfter = [&](uint32_t p) { range.high = std::min(range.high, p); };
  for (uint32_t k = 0; k < o.reads.size(); ++k) {
    notBefore(t_.position(t_.maker(t_.readCopy(r, k))) + 1);
    if (CopyId next = t_.oldestAfter(o.reads[k], r); next != kNone)
      notAfter(t_.position(t_.maker(next)));
  }
  for (uint32_t k = 0; k < o.numMade; ++k) {
    if (const auto &readers = t_.readers(t_.made(r, k)); !readers.empty())
      notAfter(t_.position(readers.front()));
    if (CopyId old = t_.newestBefore(o.firstMade + k, r); old != kNone)
      notBefore(t_.position(t_.lastUse(old)) + 1);
    if (CopyId next = t_.oldestAfter(o.firstMade + k, r); next != kNone)
      notAfter(t_.position(t_.maker(next)));
  }
  return range;
}

Editor::RunId Editor::move(RunId r, RunId before) {
  const size_t suspects = suspects_.size();
  RunId fresh = insert(t_.opOf(r), before);
  remove(r);
  suspects_.resize(suspects); // what it reads, it reads again
  return fresh;
}

// Prefers places where less is live at high water.
bool Editor::shiftSome() {
  const uint32_t first = mayReorder_ ? 0 : g_.numDefault; // op that may change places
  if (first == g_.ops.size())
    return false;
  uint32_t op = first + random.below(g_.ops.size() - first);
  const std::vector<CopyId> &copies = t_.copies(g_.ops[op].firstMade);
  if (copies.empty())
    return false;
  RunId r = t_.maker(copies[random.below(copies.size())]);
  if (t_.opOf(r) < first)
    return false;
  Range range = rangeOf(r);
  bool isLater = random.chance(0.5);
  uint32_t steps = 1 + static_cast<uint32_t>(12 * random.exponential());
  int64_t water = budget_ - budget_ / 5, before = 0, after = 0;
  auto above = [&](RunId x) { return std::max<int64_t>(0, t_.liveAt(x) - water); };
  t_.work += steps;

  // The runs that it passes are those from `begin` to `end`.
  RunId begin = kNone, end = kNone, x = r;
  for (uint32_t i = 0; i < steps; ++i) {
    x = isLater ? t_.next(x) : t_.previous(x);
    if (x == kNone || t_.position(x) >= range.high || t_.position(x) < range.low)
      break;
    before += above(x);
    (isLater ? end : begin) = x;
    if ((isLater ? begin : end) == kNone)
      (isLater ? begin : end) = x;
  }
  if (begin == kNone || (!isLater && isTooEarly(t_.opOf(r), begin)))
    return false;
  before += above(r);
  RunId fresh = move(r, isLater ? t_.next(end) : begin);
  RunId from = isLater ? begin : fresh, to = isLater ? fresh : end;
  for (x = from;; x = t_.next(x)) {
    after += above(x);
    if (x == to)
      break;
  }
  return after < before || (after == before && random.chance(0.5)) ||
         random.chance(std::exp(-double(after - before) / (0.02 * double(budget_))));
}

// Each time the best of a few gaps across the peak: the largest fall of the excess for its cost.
bool Editor::recreate(double costLimit, int tries) {
  if (candidates_.empty())
    return fits();
  for (int round = 0; round < 200; ++round) {
    int64_t excessBefore = excess();
    if (excessBefore == 0)
      return true;
    double costBefore = cost(), bestScore = 0;
    if (costBefore > costLimit)
      return false;
    Gap best;
    How how, bestHow;
    how.costLimit = costLimit;
    how.isGreedy = random.chance(0.7);
    Random bestRandom;
    size_t before = mark();
    RunId peak = t_.peakRun();
    for (int attempt = 0, tried = 0; attempt < 8 * tries && tried < tries; ++attempt) {
      t_.work += 1 + candidates_.size() / kPerLook;
      Gap gap = gapAt(candidates_[random.below(candidates_.size())], peak);
      if (!isDroppable(gap))
        continue;
      ++tried;
      how.extend = random.chance(0.3);
      how.way = someWay(t_.storageOf(gap.copy));
      Random atFirst = random;
      if (drop(gap, how)) {
        int64_t gain = excessBefore - excess();
        double score = gain <= 0 ? 0 : double(gain) / std::max(cost() - costBefore, 1e-6);
        if (score > bestScore) {
          bestScore = score;
          best = gap;
          bestHow = how;
          bestRandom = atFirst;
        }
      }
      undo(before);
    }
    if (best.copy == kNone)
      return false;
    Random now = std::exchange(random, bestRandom);
    drop(best, bestHow); // makes the same choices again
    random = now;
  }
  return false;
}

} // namespace isthmus::plan
