// Offset assignment by ejection: a placement within a lower height is repaired.
//
// Buffers that end above the height are taken out and wait. The last one that waits goes into the
// tightest gap that it fits in. If there is none, it goes where what is in its way weighs least,
// and that is taken out and waits in its place. A buffer weighs its area, bytes times steps, and as
// much again each time that no gap was found for it. So no buffers take turns in taking each
// other out for long, and in the end the hard ones stay, and the easy ones move around them. Once
// no buffer waits, the next height is a little lower.
//
// Ejections with such counters: Nagata and Bräysy 2009, "A powerful route minimization heuristic
// for the vehicle routing problem with time windows", where customers are ejected from routes.

#include "passes/place/offset_search.h"
#include "llvm/ADT/STLExtras.h"

#include <tuple>

namespace isthmus {
namespace {

// Heights go down by this part of what is left to gain, so that few buffers wait at a time.
constexpr int64_t kPart = 16;
// The weight of a buffer of mean area.
constexpr double kMeanWeight = 1000;

struct Placed {
  int64_t low, high;
  uint32_t begin, end, buffer;
};

// The buffers that are placed, in the order of their low or of their high ends.
template <int64_t Placed::*End> class Ordered {
public:
  void assign(std::vector<Placed> all) {
    all_ = std::move(all);
    llvm::sort(all_, [](const Placed &x, const Placed &y) { return key(x) < key(y); });
  }
  void insert(const Placed &x) { all_.insert(find(x), x); }
  void erase(const Placed &x) { all_.erase(find(x)); }

  // Those that are live together with the buffer.
  void meet(const Buffer &b, std::vector<Placed> &out) const {
    out.clear();
    for (const Placed &x : all_)
      if (x.begin < b.end && b.begin < x.end)
        out.push_back(x);
  }

private:
  static std::pair<int64_t, uint32_t> key(const Placed &x) { return {x.*End, x.buffer}; }
  typename std::vector<Placed>::iterator find(const Placed &x) {
    return llvm::lower_bound(all_, key(x), [](const Placed &y, auto k) { return key(y) < k; });
  }

  std::vector<Placed> all_;
};

// A placement within a height, and the buffers that wait for a place in it.
class Repair {
public:
  explicit Repair(OffsetAssignment &p) : p_(p), offsets_(p.buffers.size(), kUnplaced) {
    double sum = 0;
    for (uint32_t i = 0; i < p.buffers.size(); ++i)
      sum += area(i);
    const double unit = sum / double(p.buffers.size()) / kMeanWeight;
    for (uint32_t i = 0; i < p.buffers.size(); ++i)
      weights_.push_back(1 + int64_t(area(i) / unit));
    firstWeights_ = weights_;
  }

  const std::vector<int64_t> &offsets() const { return offsets_; }
  bool isDone() const { return waiting_.empty(); }

  void start(const std::vector<int64_t> &offsets) {
    waiting_.clear();
    offsets_ = offsets;
    std::vector<Placed> all;
    for (uint32_t i = 0; i < offsets.size(); ++i)
      all.push_back(placed(i));
    placedByLow_.assign(all);
    placedByHigh_.assign(std::move(all));
    p_.work += 40 * int64_t(offsets.size());
  }

  // Takes out what ends above the height.
  void lower(int64_t height) {
    height_ = height;
    for (uint32_t i = 0; i < offsets_.size(); ++i)
      if (offsets_[i] != kUnplaced && offsets_[i] + p_.buffers[i].bytes > height)
        takeOut(i);
    order(0);
  }

  // Places the last buffer that waits.
  void step() {
    const uint32_t i = waiting_.back();
    waiting_.pop_back();
    placedByLow_.meet(p_.buffers[i], metByLow_);
    p_.work += 40 + int64_t(p_.buffers.size() / 5 + 2 * metByLow_.size());
    if (int64_t at = tightestGap(p_.buffers[i].bytes); at != kUnplaced) {
      put(i, at);
      return;
    }
    weights_[i] += firstWeights_[i];
    const Buffer &b = p_.buffers[i];
    const int64_t at = cheapestPlace(b);
    const size_t first = waiting_.size();
    for (const Placed &x : metByLow_)
      if (x.low < at + b.bytes && at < x.high)
        takeOut(x.buffer);
    put(i, at);
    order(first);
  }

private:
  double area(uint32_t i) const {
    const Buffer &b = p_.buffers[i];
    return double(b.bytes) * double(b.end - b.begin);
  }
  Placed placed(uint32_t i) const {
    const Buffer &b = p_.buffers[i];
    return {offsets_[i], offsets_[i] + b.bytes, b.begin, b.end, i};
  }

  void put(uint32_t i, int64_t offset) {
    offsets_[i] = offset;
    placedByLow_.insert(placed(i));
    placedByHigh_.insert(placed(i));
  }

  void takeOut(uint32_t i) {
    placedByLow_.erase(placed(i));
    placedByHigh_.erase(placed(i));
    p_.work += int64_t(p_.buffers.size() / 5);
    offsets_[i] = kUnplaced;
    waiting_.push_back(i);
  }

  // Of the buffers that were taken out together, the largest is placed first.
  void order(size_t first) {
    std::sort(waiting_.begin() + long(first), waiting_.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(firstWeights_[a], a) < std::tuple(firstWeights_[b], b);
    });
  }

  int64_t tightestGap(int64_t bytes) const {
    int64_t top = 0, best = kUnplaced, least = INT64_MAX;
    auto offer = [&](int64_t end) {
      if (end - top >= bytes && end - top < least) {
        least = end - top;
        best = top;
      }
    };
    for (const Placed &x : metByLow_) {
      offer(x.low);
      top = std::max(top, x.high);
    }
    offer(height_);
    return best;
  }

  // The place is at the floor, below the height, on top of a buffer or below one.
  int64_t cheapestPlace(const Buffer &b) {
    placedByHigh_.meet(b, metByHigh_);
    const size_t n = metByLow_.size();
    p_.work += int64_t(p_.buffers.size() / 5 + 4 * n);
    int64_t weight = 0, least = INT64_MAX, best = 0;
    size_t numBest = 0, in = 0, out = 0;
    auto offer = [&](int64_t at) { // places come in rising order
      if (at < 0 || at > height_ - b.bytes)
        return;
      for (; in < n && metByLow_[in].low < at + b.bytes; ++in)
        weight += weights_[metByLow_[in].buffer];
      for (; out < n && metByHigh_[out].high <= at; ++out)
        weight -= weights_[metByHigh_[out].buffer];
      if (weight < least) {
        least = weight;
        numBest = 0;
      }
      if (weight == least && p_.below(++numBest) == 0)
        best = at;
    };
    offer(0);
    for (size_t low = 0, high = 0; low < n || high < n;)
      if (high == n || (low < n && metByLow_[low].low - b.bytes < metByHigh_[high].high))
        offer(metByLow_[low++].low - b.bytes);
      else
        offer(metByHigh_[high++].high);
    offer(height_ - b.bytes);
    return best;
  }

  OffsetAssignment &p_;
  int64_t height_ = 0;
  std::vector<int64_t> offsets_;
  std::vector<int64_t> weights_, firstWeights_; // by buffer
  std::vector<uint32_t> waiting_;
  Ordered<&Placed::low> placedByLow_;
  Ordered<&Placed::high> placedByHigh_;
  std::vector<Placed> metByLow_, metByHigh_; // those that the buffer in hand meets
};

class EjectionSearch final : public OffsetSearch {
public:
  EjectionSearch(OffsetAssignment &p, int64_t enough) : p_(p), enough_(enough), repair_(p) {}

  void run(int64_t turn, int64_t most) override {
    const int64_t untilWork = std::min(p_.work + turn, most);
    while (p_.work < untilWork) {
      if (p_.least <= height_ && !begin())
        return;
      for (; !repair_.isDone() && p_.work < untilWork; repair_.step()) {
        p_.ask();
        if (p_.mayEnd())
          return;
      }
      if (repair_.isDone())
        p_.offer(repair_.offsets());
    }
  }

private:
  // Starts from the best placement, of this search or another one; false if that is enough.
  bool begin() {
    const int64_t low = std::max(enough_, p_.bound);
    if (p_.least <= low || p_.least == INT64_MAX)
      return false;
    if (!repair_.isDone() || height_ == INT64_MAX || p_.best != repair_.offsets())
      repair_.start(p_.best);
    height_ = p_.least - std::max<int64_t>((p_.least - low) / kPart, 1);
    height_ -= height_ % p_.unit; // buffers also lie below the height
    repair_.lower(height_);
    return true;
  }

  OffsetAssignment &p_;
  const int64_t enough_;
  Repair repair_;
  int64_t height_ = INT64_MAX; // that is searched for
};

} // namespace

std::unique_ptr<OffsetSearch> ejectionSearch(OffsetAssignment &p, int64_t enough) {
  return std::make_unique<EjectionSearch>(p, enough);
}

} // namespace isthmus
