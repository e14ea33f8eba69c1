#include "passes/plan/timeline.h"

#include "passes/plan/sizes.h"

#include <algorithm>
#include <cassert>

namespace isthmus::plan {
namespace {
constexpr int64_t kEmpty = INT64_MIN / 4;
} // namespace

Timeline::Timeline(const StorageGraph &g) : g_(g) {
  free_.resize(g.ops.size() + 1);
  for (uint32_t s = 0; s < g.storages.size(); ++s)
    if (g.storages[s].lives)
      endOp_.reads.push_back(s);
  endOp_.firstMade = static_cast<uint32_t>(g.storages.size());
  for (const StorageGraph::Op &op : g.ops)
    hasReuse_ |= !op.donations.empty();
  std::vector<uint32_t> order(g.numDefault);
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  assign(order);
}

Timeline::RunId Timeline::newRun(uint32_t i) {
  const StorageGraph::Op &o = op(i);
  RunId r;
  if (free_[i].empty()) {
    r = static_cast<RunId>(runs_.size());
    runs_.push_back({i, kNone, static_cast<uint32_t>(readCopies_.size()),
                     static_cast<uint32_t>(copies_.size()), 0});
    readCopies_.resize(readCopies_.size() + o.reads.size(), kNone);
    for (uint32_t k = 0; k < o.numMade; ++k)
      copies_.push_back({o.firstMade + k, r, {}});
  } else {
    r = free_[i].back();
    free_[i].pop_back();
  }
  runs_[r].extra = o.workspace;
  return r;
}

void Timeline::assign(const std::vector<uint32_t> &ops) {
  runs_.clear();
  readCopies_.clear();
  copies_.clear();
  for (auto &list : free_)
    list.clear();
  ofStorage_.assign(g_.storages.size(), {});
  copyRuns_.clear();
  areStallsKnown_ = false;
  cost_ = 0;
  std::vector<RunId> order;
  for (size_t i = 0; i <= ops.size(); ++i) {
    uint32_t which = i < ops.size() ? ops[i] : static_cast<uint32_t>(g_.ops.size());
    RunId r = newRun(which);
    order.push_back(r);
    const StorageGraph::Op &o = op(which);
    cost_ += o.cost;
    if (o.bus != StorageGraph::Op::Bus::None)
      copyRuns_.push_back(r);
    for (size_t k = 0; k < o.reads.size(); ++k) {
      assert(!ofStorage_[o.reads[k]].empty() && "read before it was made");
      CopyId c = ofStorage_[o.reads[k]].back();
      readCopies_[runs_[r].firstRead + k] = c;
      copies_[c].readers.push_back(r);
    }
    for (uint32_t k = 0; k < o.numMade; ++k)
      ofStorage_[o.firstMade + k].push_back(made(r, k));
  }
  end_ = order.back();
  numRuns_ = order.size();
  // A first run's number is its place.
  std::vector<int64_t> live(order.size() + 1, 0);
  for (const Copy &c : copies_) {
    live[c.maker] += bytes(c.storage);
    live[(c.readers.empty() ? c.maker : c.readers.back()) + 1] -= bytes(c.storage);
  }
  for (size_t i = 1; i < live.size(); ++i)
    live[i] += live[i - 1];
  for (RunId r : order) {
    runs_[r].position = r; // so that positions compare
    live[r] += runs_[r].extra;
  }
  spread(order, live);
  if (hasReuse_)
    for (RunId r : order)
      refreshExtra(r);
}

// Puts all runs into chunks that are half full.
void Timeline::spread(const std::vector<RunId> &order, const std::vector<int64_t> &live) {
  numChunks_ = static_cast<uint32_t>((order.size() + kFill - 1) / kFill);
  leaves_ = 1;
  while (leaves_ < numChunks_)
    leaves_ *= 2;
  at_.assign(numChunks_ * kChunk, kNone);
  live_.assign(numChunks_ * kChunk, 0);
  size_.assign(numChunks_, 0);
  costIn_.assign(g_.hasCopies ? numChunks_ : 0, 0);
  max_.assign(2 * leaves_, kEmpty);
  add_.assign(2 * leaves_, 0);
  for (size_t i = 0; i < order.size(); ++i) {
    uint32_t chunk = static_cast<uint32_t>(i / kFill);
    uint32_t at = chunk * kChunk + size_[chunk]++;
    at_[at] = order[i];
    live_[at] = live[i];
    runs_[order[i]].position = at;
    if (g_.hasCopies)
      costIn_[chunk] += opCost(order[i]);
  }
  for (uint32_t c = 0; c < numChunks_; ++c)
    max_[leaves_ + c] =
        *std::max_element(live_.begin() + c * kChunk, live_.begin() + c * kChunk + size_[c]);
  for (uint32_t n = leaves_ - 1; n >= 1; --n)
    pull(n);
  work += order.size() * 4;
}

// Evens out the smallest window of chunks around a full one that has room enough; the wider the
// window, the more room it must have, so that this is rare (a packed-memory array; Bender, Demaine,
// Farach-Colton, Cache-Oblivious B-Trees, 2000).
void Timeline::makeRoom(uint32_t chunk) {
  uint32_t height = 0, levels = 0;
  while ((1u << levels) < numChunks_)
    ++levels;
  uint32_t first = 0, last = 0, total = 0;
  for (height = 1; height <= levels; ++height) {
    first = chunk >> height << height;
    last = std::min(numChunks_, first + (1u << height));
    total = 0;
    for (uint32_t c = first; c < last; ++c)
      total += size_[c];
    double most = 0.9 - 0.3 * height / levels;
    if (total <= most * (last - first) * kChunk)
      break;
  }
  scratchOrder_.clear();
  scratchLive_.clear();
  bool isWhole = height > levels;
  if (isWhole) {
    first = 0;
    last = numChunks_;
  }
  for (uint32_t c = first; c < last; ++c) {
    int64_t up = above(c);
    for (uint32_t i = c * kChunk; i < c * kChunk + size_[c]; ++i) {
      scratchOrder_.push_back(at_[i]);
      scratchLive_.push_back(live_[i] + up);
    }
  }
  if (isWhole)
    return spread(scratchOrder_, scratchLive_);
  size_t next = 0;
  for (uint32_t c = first; c < last; ++c) {
    uint32_t count = uint32_t((scratchOrder_.size() - next) / (last - c));
    int64_t up = above(c);
    size_[c] = count;
    double cost = 0;
    for (uint32_t i = c * kChunk; i < c * kChunk + count; ++i, ++next) {
      at_[i] = scratchOrder_[next];
      live_[i] = scratchLive_[next] - up;
      runs_[at_[i]].position = i;
      cost += opCost(at_[i]);
    }
    if (g_.hasCopies)
      costIn_[c] = cost;
    refreshChunk(c);
  }
  work += scratchOrder_.size() * 2;
}

void Timeline::pull(uint32_t n) { max_[n] = std::max(max_[2 * n], max_[2 * n + 1]) + add_[n]; }

void Timeline::refreshChunk(uint32_t c) {
  int64_t most = kEmpty;
  for (uint32_t i = c * kChunk, e = i + size_[c]; i < e; ++i)
    most = std::max(most, live_[i]);
  uint32_t n = leaves_ + c;
  max_[n] = most + add_[n];
  while (n >>= 1)
    pull(n);
}

int64_t Timeline::above(uint32_t chunk) const {
  int64_t sum = 0;
  for (uint32_t n = leaves_ + chunk; n; n >>= 1)
    sum += add_[n];
  return sum;
}

// Callers give positions around runs, so that `from` may be past its chunk and `to` before one.
void Timeline::add(uint32_t from, uint32_t to, int64_t b) {
  if (b == 0 || to == kNone || from > to)
    return;
  uint32_t first = from / kChunk, last = to / kChunk;
  auto part = [&](uint32_t chunk, uint32_t i, uint32_t e) {
    e = std::min(e, chunk * kChunk + size_[chunk]);
    for (; i < e; ++i)
      live_[i] += b;
    refreshChunk(chunk);
  };
  work += 4;
  if (first == last)
    return part(first, from, to + 1);
  part(first, from, (first + 1) * kChunk);
  part(last, last * kChunk, to + 1);
  if (first + 1 == last)
    return;
  uint32_t l = leaves_ + first + 1, r = leaves_ + last;
  uint32_t left = l, right = r - 1;
  for (; l < r; l >>= 1, r >>= 1) {
    if (l & 1) {
      max_[l] += b;
      add_[l++] += b;
    }
    if (r & 1) {
      max_[--r] += b;
      add_[r] += b;
    }
  }
  while (left >>= 1)
    pull(left);
  while (right >>= 1)
    pull(right);
}

void Timeline::place(RunId r, uint32_t at) {
  uint32_t chunk = at / kChunk, end = chunk * kChunk + size_[chunk];
  for (uint32_t i = end; i > at; --i) {
    at_[i] = at_[i - 1];
    live_[i] = live_[i - 1];
    runs_[at_[i]].position = i;
  }
  at_[at] = r;
  runs_[r].position = at;
  ++size_[chunk];
  ++numRuns_;
  if (g_.hasCopies) {
    costIn_[chunk] += opCost(r);
    noteCopyRun(r, /*isPlaced=*/true);
  }
}

void Timeline::displace(RunId r) {
  uint32_t at = runs_[r].position, chunk = at / kChunk;
  uint32_t end = chunk * kChunk + --size_[chunk];
  for (uint32_t i = at; i < end; ++i) {
    at_[i] = at_[i + 1];
    live_[i] = live_[i + 1];
    runs_[at_[i]].position = i;
  }
  --numRuns_;
  if (g_.hasCopies) {
    costIn_[chunk] -= opCost(r);
    noteCopyRun(r, /*isPlaced=*/false);
  }
  runs_[r].position = kNone;
  free_[runs_[r].op].push_back(r);
  refreshChunk(chunk);
}

// How many copies of the storage are made before the position.
size_t Timeline::rankOf(uint32_t storage, uint32_t position) const {
  const std::vector<CopyId> &list = ofStorage_[storage];
  if (list.empty() || runs_[copies_[list.back()].maker].position < position) // mostly
    return list.size();
  auto isBefore = [&](CopyId c) { return runs_[copies_[c].maker].position < position; };
  return size_t(std::partition_point(list.begin(), list.end(), isBefore) - list.begin());
}

uint32_t Timeline::readerFrom(CopyId c, uint32_t position) const {
  const std::vector<RunId> &readers = copies_[c].readers;
  auto isBefore = [&](RunId r) { return runs_[r].position < position; };
  return uint32_t(std::partition_point(readers.begin(), readers.end(), isBefore) - readers.begin());
}

Timeline::CopyId Timeline::newestBefore(uint32_t storage, RunId r) const {
  size_t rank = rankOf(storage, runs_[r].position);
  return rank ? ofStorage_[storage][rank - 1] : kNone;
}

Timeline::CopyId Timeline::oldestAfter(uint32_t storage, RunId r) const {
  const std::vector<CopyId> &list = ofStorage_[storage];
  size_t rank = rankOf(storage, runs_[r].position + 1);
  return rank < list.size() ? list[rank] : kNone;
}

// Each operand and result takes a step. Beyond those of usual ops their tables do not fit the
// processor's cache, and each takes as long as several.
uint64_t Timeline::editWork(const StorageGraph::Op &o) {
  constexpr uint64_t kUsual = 64, kFar = 8;
  const uint64_t count = o.reads.size() + o.numMade;
  return 4 + count + (count > kUsual ? (kFar - 1) * (count - kUsual) : 0);
}

Timeline::RunId Timeline::insert(uint32_t which, RunId before) {
  const StorageGraph::Op &o = op(which);
  if (size_[runs_[before].position / kChunk] == kChunk)
    makeRoom(runs_[before].position / kChunk);
  work += editWork(o);
  uint32_t at = runs_[before].position;
  int64_t through = live_[at] - runs_[before].extra;
  for (uint32_t k = 0, n = op(runs_[before].op).numMade; k < n; ++k)
    through -= bytes(copies_[made(before, k)].storage);
  RunId r = newRun(which);
  place(r, at);
  live_[at] = through + runs_[r].extra;
  cost_ += o.cost;

  touched_.clear();
  for (uint32_t k = 0; k < o.numMade; ++k) {
    uint32_t s = o.firstMade + k;
    CopyId fresh = made(r, k);
    std::vector<CopyId> &list = ofStorage_[s];
    size_t rank = rankOf(s, at);
    list.insert(list.begin() + rank, fresh);
    std::vector<RunId> &mine = copies_[fresh].readers;
    mine.clear();
    if (rank) {
      CopyId old = list[rank - 1];
      std::vector<RunId> &theirs = copies_[old].readers;
      const uint32_t keep = readerFrom(old, at + 1);
      mine.assign(theirs.begin() + keep, theirs.end());
      theirs.resize(keep);
      for (RunId reader : mine) {
        const StorageGraph::Op &ro = op(runs_[reader].op);
        for (size_t i = 0; i < ro.reads.size(); ++i)
          if (ro.reads[i] == s)
            readCopies_[runs_[reader].firstRead + i] = fresh;
        ++work;
      }
      if (!mine.empty()) {
        add(runs_[lastUse(old)].position + 1, at - 1, -bytes(s));
        touched_.push_back(lastUse(old));
        continue;
      }
    }
    live_[at] += bytes(s);
  }
  refreshChunk(at / kChunk);
  for (size_t k = 0; k < o.reads.size(); ++k) {
    uint32_t s = o.reads[k];
    CopyId c = newestBefore(s, r);
    assert(c != kNone && "read before it was made");
    readCopies_[runs_[r].firstRead + k] = c;
    std::vector<RunId> &readers = copies_[c].readers;
    RunId last = lastUse(c);
    if (runs_[last].position < at) {
      add(runs_[last].position + 1, at, bytes(s));
      readers.push_back(r);
      touched_.push_back(last);
    } else {
      readers.insert(readers.begin() + readerFrom(c, at), r);
    }
  }
  touched_.push_back(r);
  refreshTouched();
  return r;
}

void Timeline::remove(RunId r) {
  const StorageGraph::Op &o = op(runs_[r].op);
  uint32_t at = runs_[r].position;
  work += editWork(o);
  cost_ -= o.cost;
  touched_.clear();
  for (size_t k = 0; k < o.reads.size(); ++k) {
    CopyId c = readCopies_[runs_[r].firstRead + k];
    std::vector<RunId> &readers = copies_[c].readers;
    bool wasLast = readers.back() == r;
    readers.erase(readers.begin() + readerFrom(c, at));
    if (wasLast) {
      add(runs_[lastUse(c)].position + 1, at, -bytes(o.reads[k]));
      touched_.push_back(lastUse(c));
    }
  }
  for (uint32_t k = 0; k < o.numMade; ++k) {
    uint32_t s = o.firstMade + k;
    CopyId gone = made(r, k);
    std::vector<CopyId> &list = ofStorage_[s];
    size_t rank = rankOf(s, at);
    list.erase(list.begin() + rank);
    std::vector<RunId> &mine = copies_[gone].readers;
    if (mine.empty())
      continue;
    assert(rank > 0 && "what it makes is read, and there is no older copy");
    CopyId old = list[rank - 1];
    add(runs_[lastUse(old)].position + 1, at - 1, bytes(s));
    touched_.push_back(lastUse(old));
    touched_.push_back(mine.back());
    std::vector<RunId> &theirs = copies_[old].readers;
    theirs.insert(theirs.end(), mine.begin(), mine.end());
    for (RunId reader : mine) {
      const StorageGraph::Op &ro = op(runs_[reader].op);
      for (size_t i = 0; i < ro.reads.size(); ++i)
        if (ro.reads[i] == s)
          readCopies_[runs_[reader].firstRead + i] = old;
      ++work;
    }
    mine.clear();
  }
  displace(r);
  touched_.erase(std::remove(touched_.begin(), touched_.end(), r), touched_.end());
  refreshTouched();
}

// Bytes of results that lie, in this run, where an operand dies. Pairs are taken in their order;
// each operand and each result is used once.
int64_t Timeline::sharedAt(RunId r) const {
  const StorageGraph::Op &o = op(runs_[r].op);
  int64_t shared = 0;
  takenReads_.clear();
  takenMade_.clear();
  auto isIn = [](const std::vector<uint32_t> &list, uint32_t x) {
    return std::find(list.begin(), list.end(), x) != list.end();
  };
  for (const auto &[madeHere, read] : o.donations) {
    auto k = std::find(o.reads.begin(), o.reads.end(), read) - o.reads.begin();
    if (lastUse(readCopies_[runs_[r].firstRead + static_cast<size_t>(k)]) != r ||
        isIn(takenReads_, read) || isIn(takenMade_, madeHere))
      continue;
    takenReads_.push_back(read);
    takenMade_.push_back(madeHere);
    shared += bytes(madeHere);
  }
  return shared;
}

void Timeline::refreshExtra(RunId r) {
  const StorageGraph::Op &o = op(runs_[r].op);
  if (o.donations.empty())
    return;
  int64_t extra = o.workspace - sharedAt(r), change = extra - runs_[r].extra;
  if (!change)
    return;
  runs_[r].extra = extra;
  live_[runs_[r].position] += change;
  refreshChunk(runs_[r].position / kChunk);
}

void Timeline::refreshTouched() {
  for (size_t i = 0; hasReuse_ && i < touched_.size(); ++i)
    refreshExtra(touched_[i]);
}

Timeline::RunId Timeline::peakRun() const {
  uint32_t n = 1;
  while (n < leaves_)
    n = max_[2 * n] >= max_[2 * n + 1] ? 2 * n : 2 * n + 1;
  uint32_t chunk = n - leaves_;
  auto from = live_.begin() + chunk * kChunk;
  return at_[static_cast<size_t>(std::max_element(from, from + size_[chunk]) - live_.begin())];
}

int64_t Timeline::maxBetween(RunId fromRun, RunId toRun) const {
  uint32_t from = runs_[fromRun].position + 1, to = runs_[toRun].position - 1;
  if (to == kNone || from > to)
    return 0;
  uint32_t first = from / kChunk, last = to / kChunk;
  int64_t most = 0;
  auto part = [&](uint32_t chunk, uint32_t i, uint32_t e) {
    e = std::min(e, chunk * kChunk + size_[chunk]);
    if (i >= e)
      return;
    int64_t m = kEmpty;
    for (; i < e; ++i)
      m = std::max(m, live_[i]);
    most = std::max(most, m + above(chunk));
  };
  if (first == last) {
    part(first, from, to + 1);
    return most;
  }
  part(first, from, (first + 1) * kChunk);
  part(last, last * kChunk, to + 1);
  // Whole chunks: nodes of the tree, each with what its ancestors add.
  uint32_t l = leaves_ + first + 1, r = leaves_ + last;
  auto whole = [&](uint32_t n) {
    int64_t m = max_[n];
    for (uint32_t a = n >> 1; a; a >>= 1)
      m += add_[a];
    most = std::max(most, m);
  };
  for (; l < r; l >>= 1, r >>= 1) {
    if (l & 1)
      whole(l++);
    if (r & 1)
      whole(--r);
  }
  return most;
}

int64_t Timeline::excessOver(int64_t budget, uint32_t n, int64_t above) {
  ++work;
  if (max_[n] + above <= budget)
    return 0;
  if (n >= leaves_ && leaves_ * kChunk <= kMostStretches)
    return excessInChunk(n - leaves_, budget - above - add_[n]);
  if (n >= leaves_ || n >= kMostStretches)
    return max_[n] + above - budget;
  above += add_[n];
  return saturatingSum(excessOver(budget, 2 * n, above), excessOver(budget, 2 * n + 1, above));
}

// Of few runs each is a stretch of its own.
int64_t Timeline::excessInChunk(uint32_t chunk, int64_t budget) {
  int64_t sum = 0;
  for (uint32_t at = chunk * kChunk; at < chunk * kChunk + size_[chunk]; ++at)
    sum = saturatingSum(sum, std::max<int64_t>(0, live_[at] - budget));
  return sum;
}

int64_t Timeline::liveAt(RunId r) const {
  uint32_t at = runs_[r].position;
  return live_[at] + above(at / kChunk);
}

Timeline::RunId Timeline::first() const {
  for (uint32_t chunk = 0;; ++chunk)
    if (size_[chunk])
      return at_[chunk * kChunk];
}

Timeline::RunId Timeline::next(RunId r) const {
  uint32_t at = runs_[r].position, chunk = at / kChunk;
  if (at + 1 < chunk * kChunk + size_[chunk])
    return at_[at + 1];
  for (++chunk; chunk < numChunks_; ++chunk)
    if (size_[chunk])
      return at_[chunk * kChunk];
  return kNone;
}

Timeline::RunId Timeline::previous(RunId r) const {
  uint32_t at = runs_[r].position, chunk = at / kChunk;
  if (at > chunk * kChunk)
    return at_[at - 1];
  while (chunk-- > 0)
    if (size_[chunk])
      return at_[chunk * kChunk + size_[chunk] - 1];
  return kNone;
}

bool Timeline::isFirst(RunId r) const {
  uint32_t s = copies_[runs_[r].firstMade].storage;
  return maker(ofStorage_[s].front()) == r;
}

bool Timeline::isUnread(RunId r) const {
  for (uint32_t k = 0, n = op(runs_[r].op).numMade; k < n; ++k)
    if (!copies_[made(r, k)].readers.empty())
      return false;
  return true;
}

std::vector<uint32_t> Timeline::ops() const {
  std::vector<uint32_t> out;
  for (uint32_t c = 0; c < numChunks_; ++c)
    for (uint32_t i = c * kChunk; i < c * kChunk + size_[c]; ++i)
      if (at_[i] != end_)
        out.push_back(runs_[at_[i]].op);
  return out;
}

} // namespace isthmus::plan
