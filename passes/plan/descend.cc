#include "passes/plan/search.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

class Descent {
public:
  Descent(Editor &e, bool siblings, double noise) : e_(e), siblings_(siblings), noise_(noise) {}

  // Prices are kept in a heap and looked at again when they come to the top: they mostly fall as
  // the excess does (lazy greedy; Minoux, 1978).
  bool run(uint64_t untilWork) {
    bool any = true;
    while (!e_.fits() && !e_.isOver(untilWork)) {
      if (heap_.empty()) {
        if (!any)
          return false;
        priceAll(untilWork);
        any = false;
        if (heap_.empty())
          return false;
      }
      std::pop_heap(heap_.begin(), heap_.end());
      uint32_t s = heap_.back().second;
      heap_.pop_back();
      Offer o = bestOffer(s, heap_.empty() ? 0 : heap_.front().first / 8);
      if (o.score <= 0)
        continue;
      bool isBest = heap_.empty() || o.score >= heap_.front().first;
      if (isBest) {
        e_.drop(o.gap, o.how);
        e_.commit();
        any = true;
      }
      push(o.score, s);
    }
    return e_.fits();
  }

private:
  struct Offer {
    double score = 0; // bytes of excess per microsecond
    Editor::Gap gap;
    Editor::How how;
  };

  void push(double score, uint32_t storage) {
    heap_.push_back({score, storage});
    std::push_heap(heap_.begin(), heap_.end());
  }

  void priceAll(uint64_t untilWork) {
    double best = 0;
    for (uint32_t s : e_.candidates()) {
      if (e_.isOver(untilWork))
        return;
      if (Offer o = bestOffer(s, best / 64); o.score > 0) {
        push(o.score, s);
        best = std::max(best, o.score);
      }
    }
  }

  // Of all gaps of the storage that lie under the excess. What would score below `floor` need not
  // be found: long chains of operands are given up early.
  Offer bestOffer(uint32_t s, double floor) {
    const Timeline &t = e_.timeline();
    Offer best;
    std::vector<Timeline::CopyId> copies = t.copies(s);
    for (Timeline::CopyId c : copies)
      for (uint32_t k = 0; k < t.readers(c).size(); ++k) {
        Editor::Gap gap{c, k};
        if (!e_.isDroppable(gap) || e_.highestIn(gap) <= e_.budget())
          continue;
        Editor::How how;
        if (floor > 0)
          how.costLimit = e_.cost() + double(e_.excess()) / floor;
        considerWays(gap, how, e_.numWays(s), best);
      }
    return best;
  }

  void considerWays(const Editor::Gap &gap, Editor::How how, uint32_t numWays, Offer &best) {
    for (uint32_t k = 0; k < numWays; ++k) {
      how.way = k;
      how.extend = false;
      bool isAlone = consider(gap, how, best);
      how.extend = true;
      if (siblings_ && !isAlone)
        consider(gap, how, best);
    }
  }

  // Whether the drop needed nothing but its own op.
  bool consider(const Editor::Gap &gap, const Editor::How &how, Offer &best) {
    int64_t excess = e_.excess();
    double cost = e_.cost();
    bool ok = e_.drop(gap, how), isAlone = ok && e_.wasAlone();
    if (ok) {
      int64_t gain = excess - e_.excess();
      double score = gain <= 0 ? 0 : double(gain) / std::max(1e-6, e_.cost() - cost);
      if (noise_ > 0)
        score *= std::exp(noise_ * (e_.random.unit() - e_.random.unit()));
      if (score > best.score)
        best = {score, gap, how};
    }
    e_.undo();
    return isAlone;
  }

  Editor &e_;
  bool siblings_;
  double noise_;
  std::vector<std::pair<double, uint32_t>> heap_; // by score
};

} // namespace

bool descend(Editor &e, bool siblings, double noise, uint64_t untilWork) {
  return Descent(e, siblings, noise).run(untilWork);
}

} // namespace isthmus::plan
