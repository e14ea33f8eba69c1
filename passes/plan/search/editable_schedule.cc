#include "passes/plan/search/editable_schedule.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace isthmus::plan {

EditableSchedule::EditableSchedule(const StorageGraph &g)
    : g_(g), profile_(/*withDurations=*/g.hasTransfers, work_), free_(g.tasks.size() + 1) {
  for (StorageId s : g.storages.ids())
    if (g.storages[s].lives)
      endTask_.reads.push_back(s);
  endTask_.firstMade = g.storages.nextId();
  for (const StorageGraph::Task &t : g.tasks)
    hasDonations_ |= !t.donations.empty();
  std::vector<TaskId> order;
  for (TaskId t : IdRange<TaskId>{TaskId(0), TaskId(g.numOriginal)})
    order.push_back(t);
  assign(order);
}

StepId EditableSchedule::newStep(TaskId which) {
  const StorageGraph::Task &t = task(which);
  StepId r;
  if (!free_[which]) {
    r = steps_.nextId();
    steps_.push_back({which, static_cast<uint32_t>(reads_.size()), instances_.nextId(), {}, 0});
    reads_.resize(reads_.size() + t.reads.size());
    for (StorageId s : t.made())
      instances_.push_back({s, r, {}});
  } else {
    r = free_[which];
    free_[which] = steps_[r].nextFree;
  }
  steps_[r].extra = t.workspace;
  return r;
}

void EditableSchedule::assign(const std::vector<TaskId> &tasks) {
  steps_.clear();
  reads_.clear();
  instances_.clear();
  free_.assign(free_.size(), {});
  ofStorage_.assign(g_.storages.size(), {});
  transfers_.clear();
  stalls_.forget();
  cost_ = 0;
  std::vector<StepId> order;
  std::vector<double> durations;
  for (size_t i = 0; i <= tasks.size(); ++i) {
    TaskId which = i < tasks.size() ? tasks[i] : g_.tasks.nextId();
    StepId r = newStep(which);
    order.push_back(r);
    const StorageGraph::Task &t = task(which);
    cost_ += t.cost;
    durations.push_back(t.cost);
    if (t.transfer != StorageGraph::Task::Transfer::None)
      transfers_.push_back(r);
    for (size_t k = 0; k < t.reads.size(); ++k) {
      assert(!ofStorage_[t.reads[k]].empty() && "read before it was made");
      InstanceId c = ofStorage_[t.reads[k]].back();
      reads_[steps_[r].firstRead + k] = c;
      instances_[c].readers.push_back(r);
    }
    for (InstanceId c : made(r))
      ofStorage_[storageOf(c)].push_back(c);
  }
  end_ = order.back();
  // All ids are new, and so in order.
  std::vector<int64_t> live(order.size() + 1, 0);
  for (InstanceId c : instances_.ids()) {
    live[maker(c).index] += bytes(c);
    live[lastUse(c).index + 1] -= bytes(c);
  }
  for (size_t i = 1; i < live.size(); ++i)
    live[i] += live[i - 1];
  for (StepId r : order)
    live[r.index] += steps_[r].extra;
  profile_.assign(order, live, durations);
  if (hasDonations_)
    for (StepId r : order)
      refreshExtra(r);
}

std::vector<TaskId> EditableSchedule::tasks() const {
  std::vector<TaskId> out;
  for (StepId r : profile_.steps())
    if (r != end_)
      out.push_back(taskOf(r));
  return out;
}

// --- Queries

// The number of instances of the storage made before the position.
size_t EditableSchedule::rankOf(StorageId s, LiveProfile::Position p) const {
  const Instances &list = ofStorage_[s];
  auto isBefore = [&](InstanceId c) { return position(maker(c)) < p; };
  if (list.empty() || isBefore(list.back())) // the usual case
    return list.size();
  return size_t(std::partition_point(list.begin(), list.end(), isBefore) - list.begin());
}

uint32_t EditableSchedule::numReadersBefore(InstanceId c, LiveProfile::Position p) const {
  const Readers &list = readers(c);
  auto isBefore = [&](StepId r) { return position(r) < p; };
  return uint32_t(std::partition_point(list.begin(), list.end(), isBefore) - list.begin());
}

InstanceId EditableSchedule::newestBefore(StorageId s, StepId r) const {
  size_t rank = rankOf(s, position(r));
  return rank ? ofStorage_[s][rank - 1] : InstanceId();
}

InstanceId EditableSchedule::oldestAfter(StorageId s, StepId r) const {
  const Instances &list = ofStorage_[s];
  size_t rank = rankOf(s, position(r) + 1);
  return rank < list.size() ? list[rank] : InstanceId();
}

bool EditableSchedule::isFirst(StepId r) const {
  return maker(ofStorage_[storageOf(made(r, 0))].front()) == r;
}

bool EditableSchedule::isUnread(StepId r) const {
  for (InstanceId c : made(r))
    if (!readers(c).empty())
      return false;
  return true;
}

// --- Edits

// Each operand and result counts as one step of work. Beyond the number of a usual task, their
// tables do not fit the processor's cache, and each takes as long as several.
uint64_t EditableSchedule::editWork(const StorageGraph::Task &t) {
  constexpr uint64_t kUsual = 64, kFar = 8;
  const uint64_t count = t.reads.size() + t.numMade;
  return 4 + count + (count > kUsual ? (kFar - 1) * (count - kUsual) : 0);
}

// Places a step whose reads and instances are not bound yet: its live bytes are those that live
// through `before`.
void EditableSchedule::place(StepId r, StepId before) {
  int64_t change = steps_[r].extra - steps_[before].extra;
  for (InstanceId c : made(before))
    change -= bytes(c);
  const StorageGraph::Task &t = task(r);
  profile_.insert(r, before, change, t.cost);
  cost_ += t.cost;
  stalls_.forget();
  if (t.transfer != StorageGraph::Task::Transfer::None)
    transfers_.push_back(r);
}

void EditableSchedule::displace(StepId r) {
  profile_.erase(r);
  steps_[r].nextFree = std::exchange(free_[taskOf(r)], r);
  stalls_.forget();
  if (task(r).transfer != StorageGraph::Task::Transfer::None)
    transfers_.erase(std::find(transfers_.begin(), transfers_.end(), r));
}

StepId EditableSchedule::insert(TaskId which, StepId before) {
  const StorageGraph::Task &t = task(which);
  work_.done += editWork(t);
  StepId r = newStep(which);
  place(r, before);
  touched_.clear();
  int64_t made = 0;
  for (InstanceId fresh : this->made(r))
    made += insertInstance(fresh, r);
  profile_.add(r, made);
  bindReads(r);
  touched_.push_back(r);
  refreshTouched();
  return r;
}

// The new instance takes over the later readers of the next older one.
int64_t EditableSchedule::insertInstance(InstanceId fresh, StepId r) {
  const StorageId s = storageOf(fresh);
  Instances &list = ofStorage_[s];
  const size_t rank = rankOf(s, position(r));
  list.insert(list.begin() + rank, fresh);
  Readers &mine = instances_[fresh].readers;
  mine.clear();
  if (rank == 0)
    return bytes(s);
  InstanceId old = list[rank - 1];
  Readers &theirs = instances_[old].readers;
  const uint32_t keep = numReadersBefore(old, position(r) + 1);
  mine.assign(theirs.begin() + keep, theirs.end());
  theirs.truncate(keep);
  if (mine.empty())
    return bytes(s);
  rebind(mine, s, fresh);
  profile_.addBetween(lastUse(old), r, -bytes(s));
  touched_.push_back(lastUse(old));
  return 0; // the older one was live here already
}

void EditableSchedule::rebind(const Readers &readers, StorageId s, InstanceId to) {
  for (StepId reader : readers) {
    const StorageGraph::Reads &reads = task(reader).reads;
    for (size_t i = 0; i < reads.size(); ++i)
      if (reads[i] == s)
        reads_[steps_[reader].firstRead + i] = to;
    ++work_.done;
  }
}

void EditableSchedule::bindReads(StepId r) {
  const StorageGraph::Reads &reads = task(r).reads;
  for (size_t k = 0; k < reads.size(); ++k) {
    InstanceId c = newestBefore(reads[k], r);
    assert(c && "read before it was made");
    reads_[steps_[r].firstRead + k] = c;
    Readers &readers = instances_[c].readers;
    StepId last = lastUse(c);
    if (isBefore(last, r)) {
      profile_.addAfter(last, r, bytes(reads[k]));
      readers.push_back(r);
      touched_.push_back(last);
    } else {
      readers.insert(readers.begin() + numReadersBefore(c, position(r)), r);
    }
  }
}

void EditableSchedule::remove(StepId r) {
  const StorageGraph::Task &t = task(r);
  work_.done += editWork(t);
  cost_ -= t.cost;
  touched_.clear();
  for (uint32_t k = 0; k < t.reads.size(); ++k) {
    InstanceId c = read(r, k);
    Readers &readers = instances_[c].readers;
    const bool wasLast = readers.back() == r;
    readers.erase(readers.begin() + numReadersBefore(c, position(r)));
    if (wasLast) {
      profile_.addAfter(lastUse(c), r, -bytes(c));
      touched_.push_back(lastUse(c));
    }
  }
  for (InstanceId gone : made(r))
    removeInstance(gone, r);
  displace(r);
  touched_.erase(std::remove(touched_.begin(), touched_.end(), r), touched_.end());
  refreshTouched();
}

// The next older instance takes over the readers.
void EditableSchedule::removeInstance(InstanceId gone, StepId r) {
  const StorageId s = storageOf(gone);
  Instances &list = ofStorage_[s];
  const size_t rank = rankOf(s, position(r));
  list.erase(list.begin() + rank);
  Readers &mine = instances_[gone].readers;
  if (mine.empty())
    return;
  assert(rank > 0 && "what it makes is read, and there is no older instance");
  InstanceId old = list[rank - 1];
  profile_.addBetween(lastUse(old), r, bytes(s));
  touched_.push_back(lastUse(old));
  touched_.push_back(mine.back());
  Readers &theirs = instances_[old].readers;
  theirs.append(mine.begin(), mine.end());
  rebind(mine, s, old);
  mine.clear();
}

// --- Donations

// The bytes that operands whose last use is this step donate to its results. Pairs are taken in
// their order; each operand and each result is used once.
int64_t EditableSchedule::donatedAt(StepId r) const {
  const StorageGraph::Task &t = task(r);
  int64_t donated = 0;
  givers_.clear();
  takers_.clear();
  auto isIn = [](const std::vector<StorageId> &list, StorageId s) {
    return std::find(list.begin(), list.end(), s) != list.end();
  };
  for (const auto &[taker, giver] : t.donations) {
    auto k = std::find(t.reads.begin(), t.reads.end(), giver) - t.reads.begin();
    if (lastUse(read(r, static_cast<uint32_t>(k))) != r || isIn(givers_, giver) ||
        isIn(takers_, taker))
      continue;
    if (t.numMade == 1)
      return bytes(taker);
    givers_.push_back(giver);
    takers_.push_back(taker);
    donated += bytes(taker);
  }
  return donated;
}

void EditableSchedule::refreshExtra(StepId r) {
  const StorageGraph::Task &t = task(r);
  if (t.donations.empty())
    return;
  const int64_t extra = t.workspace - donatedAt(r);
  profile_.add(r, extra - steps_[r].extra);
  steps_[r].extra = extra;
}

void EditableSchedule::refreshTouched() {
  for (size_t i = 0; hasDonations_ && i < touched_.size(); ++i)
    refreshExtra(touched_[i]);
}

} // namespace isthmus::plan
