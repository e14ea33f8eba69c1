#include "passes/stages/cut_bound.h"

#include <algorithm>

namespace isthmus {
namespace {

class Bound {
public:
  Bound(const PlacesToCut &places, const std::vector<double> &weights)
      : places_(places), weights_(weights), count_(uint32_t(places.seconds.size())) {}

  double run() {
    if (count_ == 0)
      return 0;
    findWay();
    findPieces();
    double low = 0, high = 0;
    for (const Piece &p : pieces_)
      high += p.seconds;
    high /= *std::max_element(weights_.begin(), weights_.end()); // one stage has all
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (fits(middle) ? high : low) = middle;
    }
    return low;
  }

private:
  // Of the way from the first place to the last: one place that all others there come before or
  // after, or all that lies between two such places.
  struct Piece {
    double seconds;
    bool isOnePlace;
  };

  void findWay() {
    std::vector<std::pair<uint32_t, uint32_t>> edges = places_.edges;
    std::sort(edges.begin(), edges.end());
    std::vector<bool> isReached(count_, false), reaches(count_, false);
    isReached[0] = reaches[count_ - 1] = true;
    for (const auto &[from, to] : edges)
      if (isReached[from])
        isReached[to] = true;
    std::sort(edges.begin(), edges.end(),
              [](const auto &a, const auto &b) { return a.second > b.second; });
    for (const auto &[from, to] : edges)
      if (reaches[to])
        reaches[from] = true;
    isOnWay_.assign(count_, false);
    for (uint32_t p = 0; p < count_; ++p)
      isOnWay_[p] = isReached[p] && reaches[p];
  }

  void findPieces() {
    // By place, its first reader and its last operand on the way.
    std::vector<uint32_t> next(count_, count_ - 1), before(count_, 0);
    for (const auto &[from, to] : places_.edges)
      if (isOnWay_[from] && isOnWay_[to]) {
        next[from] = std::min(next[from], to);
        before[to] = std::max(before[to], from);
      }
    // All places before p come before it if each has a reader no later than p; likewise behind it.
    std::vector<bool> isAlone(count_, true);
    uint32_t latest = 0, earliest = count_ - 1;
    for (uint32_t p = 0; p < count_; ++p) {
      isAlone[p] = isOnWay_[p] && latest <= p;
      if (isOnWay_[p])
        latest = std::max(latest, next[p]);
    }
    for (uint32_t p = count_; p-- > 0;) {
      isAlone[p] = isAlone[p] && earliest >= p;
      if (isOnWay_[p])
        earliest = std::min(earliest, before[p]);
    }
    for (uint32_t p = 0; p < count_; ++p) {
      if (!isOnWay_[p])
        continue;
      if (isAlone[p] || pieces_.empty() || pieces_.back().isOnePlace)
        pieces_.push_back({0, isAlone[p]});
      pieces_.back().seconds += places_.seconds[p];
    }
  }

  // Whether the pieces, in their order, fit stages that take at most `seconds`.
  bool fits(double seconds) const {
    size_t stage = 0;
    double left = seconds * weights_[0];
    auto goOn = [&] {
      if (++stage < weights_.size())
        left = seconds * weights_[stage];
      return stage < weights_.size();
    };
    for (const Piece &p : pieces_) {
      double rest = p.seconds;
      while (rest > left) {
        if (!p.isOnePlace)
          rest -= left;
        if (!goOn())
          return false;
      }
      left -= rest;
    }
    return true;
  }

  const PlacesToCut &places_;
  const std::vector<double> &weights_;
  const uint32_t count_;
  std::vector<bool> isOnWay_;
  std::vector<Piece> pieces_;
};

} // namespace

double leastSlowestStage(const PlacesToCut &places, const std::vector<double> &weights) {
  return Bound(places, weights).run();
}

} // namespace isthmus
