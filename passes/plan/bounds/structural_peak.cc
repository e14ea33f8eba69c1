#include "passes/plan/bounds/peak_bound.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The number of ops, those with the largest working sets, for which the other storages that must be
// live are counted.
constexpr size_t kMostLookedAt = 32;

// Let k be a task that may run only once, X a task that depends on k, and Y a task that depends on
// X and reads a result of k. Then that result is live while X runs for the first time: k ran
// before, and Y runs after. The same holds for a chain of tasks from k to Y, each of which is the
// only reader of the one before, reads nothing else and makes one result: one of the storages on
// the chain is live. (No storage is on the chains of two such k.)
class OneTime {
public:
  explicit OneTime(const Needs &n)
      : n_(n), readers_(n.storages.size()), isOperand_(n.storages.size(), 0) {
    for (TaskId t : n.tasks.ids()) {
      for (StorageId r : n.tasks[t].reads)
        readers_[r].push_back(t);
      if (!n.tasks[t].mayRepeat)
        once_.push_back(t);
    }
  }

  bool isAny() const { return !once_.empty(); }

  // Bytes that are live beside the working set of `x` at its first run.
  int64_t kept(TaskId x) {
    IdVector<TaskId, char> before(n_.tasks.size(), 0), after(n_.tasks.size(), 0);
    before[x] = after[x] = 1;
    for (uint32_t i = x.index; i > 0; --i) // inputs come before
      if (before[TaskId(i)])
        for (StorageId r : n_.tasks[TaskId(i)].reads)
          before[n_.storages[r].maker] = 1;
    for (TaskId t : IdRange<TaskId>{x + 1, n_.tasks.nextId()})
      for (StorageId r : n_.tasks[t].reads)
        after[t] |= after[n_.storages[r].maker];
    for (StorageId r : n_.tasks[x].reads)
      isOperand_[r] = 1;
    int64_t bytes = 0;
    for (TaskId k : once_)
      if (k != x && before[k])
        bytes += keptOf(k, x, after);
    for (StorageId r : n_.tasks[x].reads)
      isOperand_[r] = 0;
    return bytes;
  }

private:
  // The bytes of the smallest storage on the chain, up to the first storage that is read after x.
  // They are 0 if the chain reaches an operand of x, which is live anyway, or x itself, which makes
  // the rest of the chain.
  int64_t keptOf(TaskId k, TaskId x, const IdVector<TaskId, char> &after) const {
    int64_t least = -1;
    for (TaskId t = k; t != x && n_.tasks[t].numMade == 1;) {
      const StorageId s = n_.tasks[t].firstMade;
      if (isOperand_[s])
        return 0;
      least = least < 0 ? n_.storages[s].bytes : std::min(least, n_.storages[s].bytes);
      for (TaskId reader : readers_[s])
        if (after[reader] && reader != x)
          return least;
      if (readers_[s].size() != 1)
        return 0;
      t = readers_[s][0];
      if (n_.tasks[t].reads.size() != 1 || !n_.tasks[t].mayRepeat) // then its own chain counts
        return 0;
    }
    return 0;
  }

  const Needs &n_;
  IdVector<StorageId, std::vector<TaskId>> readers_;
  IdVector<StorageId, char> isOperand_;
  std::vector<TaskId> once_;
};

} // namespace

int64_t workingSet(const Needs &n, const Needs::Task &t) {
  int64_t bytes = t.workspace;
  for (StorageId r : t.reads)
    bytes += n.storages[r].bytes;
  for (StorageId m : t.made())
    if (std::none_of(t.donations.begin(), t.donations.end(),
                     [&](const Needs::Task::Donation &d) { return d.made == m; }))
      bytes += n.storages[m].bytes;
  return bytes;
}

std::vector<SizedTask> largestWorkingSets(const Needs &n, size_t most) {
  std::vector<SizedTask> bySize;
  for (TaskId t : n.tasks.ids())
    bySize.push_back({workingSet(n, n.tasks[t]), t});
  std::sort(bySize.begin(), bySize.end(), [](const SizedTask &a, const SizedTask &b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.task < b.task;
  });
  bySize.resize(std::min(bySize.size(), most));
  return bySize;
}

int64_t outputBytes(const Needs &n) {
  int64_t bytes = 0;
  for (const Needs::Storage &s : n.storages)
    bytes += s.lives ? s.bytes : 0;
  return bytes;
}

int64_t structuralPeak(const Needs &n) {
  int64_t most = outputBytes(n);
  OneTime oneTime(n);
  for (const SizedTask &t : largestWorkingSets(n, kMostLookedAt))
    most = std::max(most, t.bytes + (oneTime.isAny() ? oneTime.kept(t.task) : 0));
  return most;
}

int64_t fixedOrderPeak(const Needs &n) {
  IdVector<StorageId, TaskId> last(n.storages.size());
  for (TaskId t : n.tasks.ids())
    for (StorageId r : n.tasks[t].reads)
      last[r] = t;
  auto isKept = [&](StorageId s, TaskId at) { // beside the task that runs
    const Needs::Storage &storage = n.storages[s];
    return !n.tasks[storage.maker].mayRepeat && (storage.lives || (last[s] && last[s] > at));
  };
  int64_t most = 0, kept = 0;
  for (TaskId t : n.tasks.ids()) {
    int64_t operands = 0;
    for (StorageId r : n.tasks[t].reads)
      if (!n.tasks[n.storages[r].maker].mayRepeat)
        operands += n.storages[r].bytes;
    most = std::max(most, kept - operands + workingSet(n, n.tasks[t]));
    for (StorageId r : n.tasks[t].reads)
      if (!n.tasks[n.storages[r].maker].mayRepeat && !isKept(r, t))
        kept -= n.storages[r].bytes;
    for (StorageId m : n.tasks[t].made())
      if (isKept(m, t))
        kept += n.storages[m].bytes;
  }
  return most;
}

} // namespace isthmus::plan
