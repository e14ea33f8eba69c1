#include "passes/plan/chains/segment_chain.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {
namespace {

class Builder {
public:
  Builder(const StorageGraph &g, const Segments &segments,
          const std::function<bool(StorageId)> &isSmall)
      : g_(g), segments_(segments), isForward_(g.numOriginal), stays_(g.storages.size()),
        mark_(g.storages.size()), lastUse_(g.storages.size()), reach_(g.storages.size()) {
    for (uint32_t k = 1; k <= segments.num; ++k)
      for (TaskId t : segments.tasksAt[k])
        isForward_[t] = true;
    findStaying(isSmall);
    for (uint32_t k = 1; k <= segments.num; ++k)
      for (StorageId s : segments.in[k])
        reach_[s] = k; // the last end that it crosses
  }

  std::optional<SegmentChain> run() {
    for (uint32_t k = 1; k <= segments_.num && isPossible_; ++k)
      addSegment(k);
    if (!isPossible_)
      return std::nullopt;
    addStaying();
    return std::move(chain_);
  }

private:
  using Storages = std::vector<StorageId>;
  enum : char { IsFreed, Stays, IsReplaced };

  // Where the forward readers of a storage that must not be made again make fewer bytes, their
  // results stay in its place: masks instead of random numbers.
  void findStaying(const std::function<bool(StorageId)> &isSmall) {
    IdVector<StorageId, std::vector<TaskId>> readers(g_.storages.size());
    for (TaskId t : isForward_.ids())
      for (StorageId s : g_.tasks[t].reads)
        readers[s].push_back(t);
    for (TaskId t : isForward_.ids())
      for (StorageId s : g_.tasks[t].made()) {
        if (!isForward_[t])
          continue;
        if (isSmall(s) || !g_.tasks[t].mayRepeat || g_.storages[s].lives)
          stays_[s] = Stays;
        if (stays_[s] && !isSmall(s) && !g_.storages[s].lives && replace(s, readers[s]))
          stays_[s] = IsReplaced;
      }
  }

  bool replace(StorageId s, const std::vector<TaskId> &readers) {
    int64_t bytes = 0;
    for (TaskId t : readers) {
      if (!isForward_[t])
        return false;
      for (StorageId made : g_.tasks[t].made())
        bytes += g_.storages[made].bytes;
    }
    if (readers.empty() || bytes >= g_.storages[s].bytes)
      return false;
    for (TaskId t : readers)
      for (StorageId made : g_.tasks[t].made())
        stays_[made] = Stays;
    return true;
  }

  bool crosses(StorageId s, uint32_t segment) const { return reach_[s] >= segment; }

  void addSegment(uint32_t k) {
    SegmentChain::Tasks tasks;
    tasks.forward = segments_.tasksAt[k];
    tasks.backward = segments_.tasksAt[segments_.backwardOf(k)];
    Storages crossing, targets, gradientsIn, gradientsOut;
    for (TaskId t : tasks.forward)
      for (StorageId s : g_.tasks[t].made())
        if (!stays_[s] && crosses(s, k))
          crossing.push_back(s);
    for (StorageId s : segments_.out[k])
      if (isCounted(s))
        gradientsIn.push_back(s);
    for (StorageId s : segments_.out[k - 1])
      if (isCounted(s))
        gradientsOut.push_back(s);
    // A value that this segment makes and an earlier one's backward tasks read is like a gradient.
    for (StorageId s : gradientsOut)
      if (isMadeIn(s, k))
        targets.push_back(s);
    for (TaskId t : tasks.backward)
      for (StorageId s : g_.tasks[t].reads)
        if (isMadeIn(s, k) && !stays_[s])
          targets.push_back(s);
    std::sort(targets.begin(), targets.end());
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    Storages both = crossing;
    both.insert(both.end(), targets.begin(), targets.end());
    tasks.sweep = makersOf(crossing, k);
    tasks.again = makersOf(targets, k);
    tasks.keeping = makersOf(both, k);
    addLink(k, tasks, crossing, targets, both, gradientsIn, gradientsOut);
    chain_.tasks.push_back(std::move(tasks));
  }

  bool isMadeIn(StorageId s, uint32_t segment) const {
    const std::vector<TaskId> &tasks = segments_.tasksAt[segment];
    return std::binary_search(tasks.begin(), tasks.end(), g_.storages[s].maker);
  }
  // Storages that live to the end are counted as left by the tasks that make them.
  bool isCounted(StorageId s) const { return !stays_[s] && !g_.storages[s].lives; }

  // The segment's forward tasks that make the storages from those that cross the end before it.
  std::vector<TaskId> makersOf(const Storages &wanted, uint32_t k) {
    ++stamp_;
    for (StorageId s : wanted)
      mark_[s] = stamp_;
    std::vector<TaskId> makers;
    const std::vector<TaskId> &tasks = segments_.tasksAt[k];
    for (size_t i = tasks.size(); i-- > 0;) {
      const StorageGraph::Task &t = g_.tasks[tasks[i]];
      bool isWanted = false;
      for (StorageId s : t.made())
        isWanted |= mark_[s] == stamp_ && !stays_[s];
      if (!isWanted)
        continue;
      isPossible_ &= t.mayRepeat;
      makers.push_back(tasks[i]);
      for (StorageId s : t.reads)
        if (!stays_[s])
          mark_[s] = stamp_;
    }
    std::reverse(makers.begin(), makers.end());
    return makers;
  }

  void addLink(uint32_t k, const SegmentChain::Tasks &tasks, const Storages &crossing,
               const Storages &targets, const Storages &both, const Storages &gradientsIn,
               const Storages &gradientsOut) {
    const Storages before = crossingEnd(k - 1), after = crossingEnd(k);
    ChainLink l;
    l.sweepCost = costOf(tasks.sweep);
    l.keepingCost = costOf(tasks.keeping);
    l.backwardCost = costOf(tasks.again);
    l.sweepPeak = peakOf(tasks.sweep, {}, before, {}, after);
    l.passingPeak = peakOf(tasks.sweep, {}, {}, before, after) - bytesOf(before);
    Storages kept = after;
    kept.insert(kept.end(), both.begin(), both.end());
    l.keepingPeak = peakOf(tasks.keeping, {}, before, {}, kept);
    l.backwardPeak = peakOf(tasks.again, tasks.backward, before, gradientsIn, gradientsOut);
    Storages there = gradientsIn;
    there.insert(there.end(), targets.begin(), targets.end());
    l.keptBackwardPeak = peakOf({}, tasks.backward, before, there, gradientsOut);
    for (StorageId s : targets)
      if (!crosses(s, k))
        l.keptBytes += g_.storages[s].bytes;
    l.gradientBytes = bytesOf(gradientsIn);
    for (TaskId t : tasks.backward)
      for (StorageId s : g_.tasks[t].made())
        if (g_.storages[s].lives)
          l.leftBytes += g_.storages[s].bytes;
    for (StorageId s : crossing)
      l.made.push_back({g_.storages[s].bytes, reach_[s] - k});
    chain_.links.push_back(std::move(l));
  }

  // The storages that cross a segment's end and do not stay anyway.
  Storages crossingEnd(uint32_t k) const {
    Storages all;
    for (StorageId s : segments_.in[k])
      if (!stays_[s])
        all.push_back(s);
    return all;
  }

  double costOf(const std::vector<TaskId> &tasks) const {
    double cost = 0;
    for (TaskId t : tasks)
      cost += g_.tasks[t].cost;
    return cost;
  }
  int64_t bytesOf(const Storages &storages) const {
    int64_t bytes = 0;
    for (StorageId s : storages)
      bytes += g_.storages[s].bytes;
    return bytes;
  }

  // The peak of the tasks, first some and then others. `held` storages are not counted; those that
  // are `there` are live at the beginning and freed after their last read, unless they are `needed`
  // at the end.
  int64_t peakOf(const std::vector<TaskId> &first, const std::vector<TaskId> &second,
                 const Storages &held, const Storages &there, const Storages &needed) {
    constexpr uint32_t kForever = ~0u;
    std::vector<TaskId> tasks = first;
    tasks.insert(tasks.end(), second.begin(), second.end());
    auto isIgnored = [&](StorageId s) { return mark_[s] == stamp_ || stays_[s]; };
    ++stamp_;
    for (StorageId s : held)
      mark_[s] = stamp_;
    for (StorageId s : there)
      lastUse_[s] = 0;
    for (uint32_t i = 0; i < tasks.size(); ++i) {
      for (StorageId s : g_.tasks[tasks[i]].made())
        lastUse_[s] = g_.storages[s].lives ? kForever : i;
      for (StorageId s : g_.tasks[tasks[i]].reads)
        if (lastUse_[s] != kForever)
          lastUse_[s] = i;
    }
    for (StorageId s : needed)
      lastUse_[s] = kForever;
    int64_t live = bytesOf(there), peak = live;
    for (uint32_t i = 0; i < tasks.size(); ++i) {
      const StorageGraph::Task &t = g_.tasks[tasks[i]];
      int64_t donated = 0;
      for (StorageId s : t.made())
        live += isIgnored(s) ? 0 : g_.storages[s].bytes;
      for (const StorageGraph::Task::Donation &d : t.donations)
        if (!isIgnored(d.read) && !isIgnored(d.made) && lastUse_[d.read] == i)
          donated = std::max(donated, g_.storages[d.made].bytes);
      peak = std::max(peak, live + t.workspace - donated);
      for (StorageId s : t.reads)
        if (isCounted(s) && !isIgnored(s) && lastUse_[s] == i)
          live -= g_.storages[s].bytes;
      for (StorageId s : t.made())
        if (!isIgnored(s) && lastUse_[s] == i)
          live -= g_.storages[s].bytes;
    }
    return peak;
  }

  // Storages that stay are live until the backward part of the first segment that reads them, or to
  // the end. (Sweeps read them again until then.)
  void addStaying() {
    IdVector<StorageId, uint32_t> first(g_.storages.size(), segments_.num);
    for (uint32_t time = 1; time < segments_.end(); ++time)
      for (TaskId t : segments_.tasksAt[time])
        for (StorageId s : g_.tasks[t].reads)
          first[s] = std::min({first[s], time, segments_.end() - time});
    for (TaskId t : isForward_.ids())
      for (StorageId s : g_.tasks[t].made())
        if (stays_[s] == Stays) {
          chain_.stayingBytes += g_.storages[s].bytes;
          if (!g_.storages[s].lives)
            chain_.links[first[s] - 1].leftBytes -= g_.storages[s].bytes;
        }
  }

  const StorageGraph &g_;
  const Segments &segments_;
  IdVector<TaskId, char> isForward_;
  IdVector<StorageId, char> stays_;
  IdVector<StorageId, uint32_t> mark_, lastUse_, reach_;
  uint32_t stamp_ = 0;
  bool isPossible_ = true;
  SegmentChain chain_;
};

} // namespace

std::optional<SegmentChain> chainOf(const StorageGraph &g, const Segments &segments,
                                    const std::function<bool(StorageId)> &isSmall) {
  return Builder(g, segments, isSmall).run();
}

// Removes runs whose results nothing reads before they are made again.
static std::vector<TaskId> withoutUnread(const StorageGraph &g, const std::vector<TaskId> &tasks) {
  IdVector<StorageId, char> isRead(g.storages.size());
  for (StorageId s : g.storages.ids())
    isRead[s] = g.storages[s].lives;
  std::vector<TaskId> needed;
  for (size_t i = tasks.size(); i-- > 0;) {
    const StorageGraph::Task &t = g.tasks[tasks[i]];
    bool isNeeded = false;
    for (StorageId s : t.made())
      isNeeded |= std::exchange(isRead[s], false);
    if (!isNeeded)
      continue;
    for (StorageId s : t.reads)
      isRead[s] = true;
    needed.push_back(tasks[i]);
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

std::vector<TaskId> tasksOf(const StorageGraph &g, const SegmentChain &chain,
                            const std::vector<ChainRun> &runs) {
  using Kind = ChainRun::Kind;
  std::vector<bool> hasRun(chain.tasks.size());
  std::vector<TaskId> tasks;
  auto append = [&](const std::vector<TaskId> &more) {
    tasks.insert(tasks.end(), more.begin(), more.end());
  };
  for (const ChainRun &run : runs) {
    const SegmentChain::Tasks &of = chain.tasks[run.link];
    if (run.kind != Kind::KeptBackward) {
      append(!hasRun[run.link]                ? of.forward
             : run.kind == Kind::Sweep        ? of.sweep
             : run.kind == Kind::KeepingSweep ? of.keeping
                                              : of.again);
      hasRun[run.link] = true;
    }
    if (run.kind == Kind::Backward || run.kind == Kind::KeptBackward)
      append(of.backward);
  }
  return withoutUnread(g, tasks);
}

} // namespace isthmus::plan
