#include "passes/plan/search/late_blocks.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// The most tasks that are looked at, for each task of the graph.
constexpr uint64_t kMostLooks = 200;

class Blocks {
public:
  Blocks(const StorageGraph &g, const std::vector<TaskId> &order) : g_(g), order_(order) {
    place_.assign(g.tasks.size(), 0);
    next_.assign(g.tasks.size(), TaskId());
    for (size_t i = 0; i < order.size(); ++i) {
      place_[order[i]] = uint32_t(i);
      block_.push_back(uint32_t(i));
      first_.push_back(order[i]);
    }
    readers_.resize(g.storages.size());
    met_.assign(g.storages.size(), 0);
    for (TaskId t : order)
      for (StorageId s : g.tasks[t].reads)
        readers_[s].push_back(t);
    looksLeft_ = kMostLooks * order.size();
  }

  std::vector<TaskId> run(size_t first) {
    for (size_t i = order_.size(); i-- > first && looksLeft_ > 0;)
      for (uint32_t b = blockOf(order_[i]); moveLate(b);)
        b = blockOf(order_[i]);
    std::vector<TaskId> out;
    for (uint32_t b = 0; b < order_.size(); ++b)
      if (block_[b] == b)
        for (TaskId t = first_[b]; t; t = next_[t])
          out.push_back(t);
    return out;
  }

private:
  // A block is known by the place of its last task, which stays where it is.
  uint32_t blockOf(TaskId t) {
    uint32_t b = place_[t];
    while (block_[b] != b)
      b = block_[b] = block_[block_[b]];
    return b;
  }

  // Puts the block before that of its first reader, if fewer bytes are live between then. Returns
  // whether it did. (It goes before the whole other block: it may need many bytes while it runs,
  // and what the other one makes first need not be live by then.)
  bool moveLate(uint32_t b) {
    const uint32_t to = firstReader(b);
    if (to == order_.size() || bytesHeld(b) <= bytesExtended(b, to))
      return false;
    next_[order_[b]] = first_[to];
    first_[to] = first_[b];
    block_[b] = to;
    return true;
  }

  template <typename Visit> void forEachTask(uint32_t b, Visit visit) {
    for (TaskId t = first_[b]; t; t = next_[t]) {
      looksLeft_ -= looksLeft_ > 0;
      visit(t);
    }
  }

  // The block that reads something of this one's, or overwrites what this one reads, before others.
  uint32_t firstReader(uint32_t b) {
    uint32_t first = uint32_t(order_.size());
    auto meet = [&](TaskId reader) {
      if (const uint32_t other = blockOf(reader); other != b)
        first = std::min(first, other);
    };
    forEachTask(b, [&](TaskId t) {
      for (StorageId s : g_.tasks[t].made())
        for (TaskId reader : readers_[s])
          meet(reader);
      for (TaskId overwriter : g_.overwritersOf(t))
        meet(overwriter);
    });
    return first;
  }

  // What the block makes and others read.
  int64_t bytesHeld(uint32_t b) {
    int64_t sum = 0;
    forEachTask(b, [&](TaskId t) {
      for (StorageId s : g_.tasks[t].made()) {
        const auto &readers = readers_[s];
        if (g_.storages[s].lives ||
            std::any_of(readers.begin(), readers.end(), [&](TaskId r) { return blockOf(r) != b; }))
          sum += g_.storages[s].bytes;
      }
    });
    return sum;
  }

  // What is live up to the block `to` only because this one, just before it, reads it.
  int64_t bytesExtended(uint32_t b, uint32_t to) {
    int64_t sum = 0;
    ++numCalls_;
    forEachTask(b, [&](TaskId t) {
      for (StorageId s : g_.tasks[t].reads) {
        const auto &readers = readers_[s];
        if (met_[s] == numCalls_ || g_.storages[s].lives || blockOf(g_.storages[s].maker) == b)
          continue;
        met_[s] = numCalls_;
        if (std::all_of(readers.begin(), readers.end(), [&](TaskId r) {
              const uint32_t other = blockOf(r);
              return other == b || other < to;
            }))
          sum += g_.storages[s].bytes;
      }
    });
    return sum;
  }

  const StorageGraph &g_;
  const std::vector<TaskId> &order_;
  IdVector<TaskId, uint32_t> place_; // by task: its index in the order
  std::vector<uint32_t> block_;      // by place: a place of its block that is nearer to the last
  std::vector<TaskId> first_;        // by place of a block
  IdVector<TaskId, TaskId> next_;    // in its block; none behind the last
  IdVector<StorageId, std::vector<TaskId>> readers_;
  IdVector<StorageId, uint32_t> met_; // the last call of bytesExtended() that met it
  uint32_t numCalls_ = 0;
  uint64_t looksLeft_ = 0;
};

} // namespace

std::vector<TaskId> withLateBlocks(const StorageGraph &g, const std::vector<TaskId> &order,
                                   size_t first) {
  return Blocks(g, order).run(first);
}

} // namespace isthmus::plan
