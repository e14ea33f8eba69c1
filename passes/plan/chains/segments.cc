#include "passes/plan/chains/segments.h"

#include <algorithm>
#include <map>
#include <utility>

namespace isthmus::plan {
namespace {

class Division {
public:
  Division(const StorageGraph &g, uint32_t leastTasks)
      : g_(g), originals_{TaskId(0), TaskId(g.numOriginal)}, time_(g.numOriginal, 0) {
    divideForward(leastTasks);
    placeBackward();
    bringForward();
    putOffOverwriters();
  }

  std::optional<Segments> run() {
    if (result_.num < 2 || !isInOrder())
      return std::nullopt;
    result_.tasksAt.resize(result_.end());
    for (TaskId t : originals_)
      result_.tasksAt[time_[t]].push_back(t);
    findCrossings();
    return std::move(result_);
  }

private:
  bool isForward(TaskId t) const { return !g_.tasks[t].isBackward; }
  TaskId makerOf(StorageId s) const { return g_.storages[s].maker; }
  uint32_t segmentOf(uint32_t time) const {
    return time <= result_.num ? time : result_.end() - time;
  }

  // --- The forward part
  struct Crossing { // the storages that cross the place after a task
    int64_t bytes = 0;
    int storages = 0;
    friend auto operator<=>(const Crossing &a, const Crossing &b) = default;
  };

  static std::vector<Crossing> crossingsOf(const StorageGraph &g,
                                           const std::vector<TaskId> &forward) {
    IdVector<StorageId, uint32_t> last(g.storages.size(), 0);
    for (uint32_t i = 0; i < forward.size(); ++i)
      for (StorageId s : g.tasks[forward[i]].reads)
        last[s] = i;
    std::vector<Crossing> all(forward.size());
    for (uint32_t i = 0; i < forward.size(); ++i)
      for (StorageId s : g.tasks[forward[i]].made())
        if (last[s] > i) {
          all[i].bytes += g.storages[s].bytes;
          all[i].storages += 1;
          all[last[s]].bytes -= g.storages[s].bytes;
          all[last[s]].storages -= 1;
        }
    for (uint32_t i = 1; i < forward.size(); ++i) {
      all[i].bytes += all[i - 1].bytes;
      all[i].storages += all[i - 1].storages;
    }
    return all;
  }

  void divideForward(uint32_t least) {
    std::vector<TaskId> forward;
    for (TaskId t : originals_)
      if (isForward(t))
        forward.push_back(t);
    const std::vector<Crossing> crossings = crossingsOf(g_, forward);
    for (size_t begin = 0, end; begin < forward.size(); begin = end) {
      end = forward.size();
      if (least == 0) {
        end = begin + 1;
      } else if (end - begin > 2 * size_t(least)) {
        const auto low = crossings.begin() + long(begin + least - 1);
        end = size_t(std::min_element(low, low + long(least) + 1) - crossings.begin()) + 1;
      }
      ++result_.num;
      for (size_t i = begin; i < end; ++i)
        time_[forward[i]] = result_.num;
    }
  }

  // --- The backward part
  // A backward task belongs to the first of the segments of its operands. The segment of a value
  // that a forward task makes is that of its last forward reader, since the first task of a segment
  // needs its operands for its weights' gradients.
  void placeBackward() {
    IdVector<StorageId, uint32_t> lastForward(g_.storages.size(), 0);
    for (TaskId t : originals_) {
      uint32_t time = isForward(t) ? time_[t] : result_.backwardOf(result_.num);
      for (StorageId s : g_.tasks[t].reads)
        if (isForward(t))
          lastForward[s] = std::max(lastForward[s], time);
        else
          time = std::max(time, isForward(makerOf(s)) ? result_.backwardOf(lastForward[s])
                                                      : time_[makerOf(s)]);
      time_[t] = time;
      if (isForward(t))
        for (StorageId s : g_.tasks[t].made())
          lastForward[s] = std::max(lastForward[s], time);
    }
  }

  // Delays a backward task until the first read of its results, unless its results are smaller than
  // the storages that would stay live for it.
  void bringForward() {
    IdVector<StorageId, uint32_t> first(g_.storages.size(), result_.end());
    IdVector<StorageId, uint32_t> last(g_.storages.size(), 0);
    for (uint32_t i = g_.numOriginal; i-- > 0;) {
      const TaskId t(i);
      uint32_t until = result_.end();
      int64_t made = 0;
      for (StorageId s : g_.tasks[t].made()) {
        until = std::min(until, first[s]);
        made += g_.storages[s].bytes;
      }
      if (!isForward(t) && until > time_[t] && until < result_.end()) {
        HeldBytes known;
        if (made >= bytesHeldFor(t, until, last, 0, known))
          time_[t] = until;
      }
      for (StorageId s : g_.tasks[t].reads) {
        first[s] = std::min(first[s], time_[t]);
        last[s] = std::max(last[s], time_[t]);
      }
    }
  }

  // Results of `bytesHeldFor` by task and depth. If each task reads the results of all tasks before
  // it, as sums of gradients do in a DenseNet, there are too many paths to follow each one by
  // itself.
  using HeldBytes = std::map<std::pair<TaskId, int>, int64_t>;

  // The bytes that stay live longer if the task runs at this later time. The maker of a storage
  // that only this task reads may run later too. `known`: for the same time and the same last
  // reads.
  int64_t bytesHeldFor(TaskId t, uint32_t time, const IdVector<StorageId, uint32_t> &last,
                       int depth, HeldBytes &known) const {
    constexpr int kDeepest = 8;
    const auto [found, isNew] = known.try_emplace({t, depth}, 0);
    if (!isNew)
      return found->second;
    int64_t bytes = 0;
    for (StorageId s : g_.tasks[t].reads)
      if (last[s] < time) {
        int64_t held = g_.storages[s].bytes;
        if (!isForward(makerOf(s)) && last[s] == 0 && depth < kDeepest)
          held = std::min(held, bytesHeldFor(makerOf(s), time, last, depth + 1, known));
        bytes += held;
      }
    return found->second = bytes; // references into a map stay valid
  }

  // Delays tasks that overwrite: the bytes must not be read afterwards, not even in the backward
  // part of a reader's segment, where the reader may run again.
  void putOffOverwriters() {
    for (TaskId t : originals_)
      for (TaskId reader : g_.readersOfOverwritten(t)) {
        if (g_.isAlternative(reader))
          reader = makerOf(g_.tasks[reader].firstMade);
        if (!g_.isAlternative(reader))
          time_[t] = std::max(time_[t], result_.backwardOf(segmentOf(time_[reader])));
      }
  }

  bool isInOrder() const {
    for (TaskId t : originals_)
      for (StorageId s : g_.tasks[t].reads)
        if (time_[makerOf(s)] > time_[t])
          return false;
    return true;
  }

  // --- Storages that cross segments
  void findCrossings() {
    const uint32_t num = result_.num;
    IdVector<StorageId, uint32_t> &last = result_.lastRead;
    // By storage: the segment before that of its innermost reader.
    IdVector<StorageId, uint32_t> innermost(g_.storages.size(), 0);
    last.assign(g_.storages.size(), 0);
    for (TaskId t : originals_)
      for (StorageId s : g_.tasks[t].reads) {
        last[s] = std::max(last[s], time_[t]);
        innermost[s] = std::max(innermost[s], segmentOf(time_[t]) - 1);
      }
    result_.in.resize(num + 1);
    result_.out.resize(num + 1);
    result_.passing.resize(num + 1);
    for (TaskId t : originals_)
      for (StorageId s : g_.tasks[t].made()) {
        if (isForward(t))
          for (uint32_t k = time_[t]; k <= innermost[s]; ++k)
            result_.in[k].push_back(s);
        const uint32_t maker = segmentOf(time_[t]);
        const uint32_t reader =
            last[s] > time_[t] ? std::min(maker, result_.end() - last[s]) : maker;
        for (uint32_t k = reader; k < maker; ++k)
          result_.out[k].push_back(s);
        if (g_.storages[s].lives && reader > 0)
          result_.passing[reader - 1] += g_.storages[s].bytes;
      }
    for (uint32_t k = num; k > 0; --k)
      result_.passing[k - 1] += result_.passing[k];
  }

  const StorageGraph &g_;
  const IdRange<TaskId> originals_;
  IdVector<TaskId, uint32_t> time_;
  Segments result_;
};

} // namespace

std::optional<Segments> segmentsOf(const StorageGraph &g, uint32_t leastTasks) {
  return Division(g, leastTasks).run();
}

} // namespace isthmus::plan
