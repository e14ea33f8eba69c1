#include "passes/plan/search/evictor.h"
#include "passes/plan/search/searches.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

class GreedySearch {
public:
  GreedySearch(SearchState &state, const GreedyOptions &o)
      : state_(state), evictor_(state), options_(o) {}

  // Scores are kept in a heap and recomputed when they come to the top: they mostly fall with the
  // excess (lazy greedy; Minoux, 1978).
  bool run(uint64_t untilWork) {
    bool any = true;
    while (!state_.fits() && !state_.isOver(untilWork)) {
      if (heap_.empty()) {
        if (!any)
          return false;
        priceAll(untilWork);
        any = false;
        if (heap_.empty())
          return false;
      }
      std::pop_heap(heap_.begin(), heap_.end());
      StorageId s = heap_.back().second;
      heap_.pop_back();
      Offer o = bestOffer(s, heap_.empty() ? 0 : heap_.front().first / 8);
      if (o.score <= 0)
        continue;
      bool isBest = heap_.empty() || o.score >= heap_.front().first;
      if (isBest) {
        evictor_.evict(o.idle, o.options);
        state_.edits.commit();
        any = true;
      }
      push(o.score, s);
    }
    return state_.fits();
  }

private:
  struct Offer {
    double score = 0; // bytes of excess per microsecond
    IdleInterval idle;
    EvictOptions options;
  };

  void push(double score, StorageId s) {
    heap_.push_back({score, s});
    std::push_heap(heap_.begin(), heap_.end());
  }

  void priceAll(uint64_t untilWork) {
    double best = 0;
    for (StorageId s : state_.candidates()) {
      if (state_.isOver(untilWork))
        return;
      if (Offer o = bestOffer(s, best / 64); o.score > 0) {
        push(o.score, s);
        best = std::max(best, o.score);
      }
    }
  }

  // The best offer among the storage's idle intervals in which the live bytes exceed the budget. An
  // offer that would score below `floor` may be missed: long chains of operands are given up early.
  Offer bestOffer(StorageId s, double floor) {
    const EditableSchedule &schedule = state_.schedule();
    Offer best;
    const EditableSchedule::Instances instances = schedule.instances(s);
    for (InstanceId c : instances)
      for (uint32_t k = 0; k < schedule.readers(c).size(); ++k) {
        IdleInterval idle{c, k};
        if (evictor_.highestIn(idle) <= state_.budget())
          continue;
        EvictOptions o;
        if (floor > 0)
          o.costLimit = state_.cost() + double(state_.excess()) / floor;
        considerMethods(idle, o, evictor_.rematerializer().numMethods(s), best);
      }
    return best;
  }

  void considerMethods(const IdleInterval &idle, EvictOptions o, uint32_t numMethods, Offer &best) {
    for (uint32_t k = 0; k < numMethods; ++k) {
      o.method = k;
      o.extendOperands = false;
      const bool wasOneStep = consider(idle, o, best);
      o.extendOperands = true;
      if (options_.withSiblings && !wasOneStep)
        consider(idle, o, best);
    }
  }

  // Returns whether the eviction inserted one step and edited nothing else.
  bool consider(const IdleInterval &idle, const EvictOptions &o, Offer &best) {
    const int64_t excess = state_.excess();
    const double cost = state_.cost();
    const bool ok = evictor_.evict(idle, o), wasOneStep = ok && evictor_.wasOneStep();
    if (ok) {
      int64_t gain = excess - state_.excess();
      double score = gain <= 0 ? 0 : double(gain) / std::max(1e-6, state_.cost() - cost);
      if (options_.noise > 0)
        score *= std::exp(options_.noise * (state_.random.unit() - state_.random.unit()));
      if (score > best.score)
        best = {score, idle, o};
    }
    state_.edits.undo();
    return wasOneStep;
  }

  SearchState &state_;
  Evictor evictor_;
  const GreedyOptions options_;
  std::vector<std::pair<double, StorageId>> heap_; // by score
};

} // namespace

bool searchGreedily(SearchState &state, const GreedyOptions &o, uint64_t untilWork) {
  return GreedySearch(state, o).run(untilWork);
}

} // namespace isthmus::plan
