// Offset assignment from the floor up: the lowest valley of the skyline is filled first.
//
// The skyline is the occupied height at each step. A valley is a stretch of steps of one height.
// The lowest valley takes the buffer of highest rank whose life lies within it; if there is none,
// the valley is raised to the lower of its neighbours (Burke, Kendall and Whitwell 2004, "A new
// placement heuristic for the orthogonal stock-cutting problem", with time for the sheet's width).
// At first the rank is bytes times steps. Buffers that ended above the wanted height rank higher in
// the next filling, again and again, with a little noise (Joslin and Clements 1999, "Squeaky wheel
// optimization"). One filling takes some n log n, so there can be many.

#include "passes/place/offset_search.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <limits>
#include <queue>

namespace isthmus {
namespace {

// The rank that a buffer above the height gains, as a share of its area: much in the first
// fillings, since many buffers allow few fillings, and less and less in later ones.
constexpr float kFirstComplaint = 3, kLeastComplaint = 0.3f;
constexpr float kFewFillings = 32;
constexpr float kNoise = 0.15f;

// The buffers that are not placed yet, by first step. Finds the buffer of highest rank among those
// that begin in a range and end before some step: a tree of maxima, searched by branch and bound.
class Waiting {
public:
  explicit Waiting(const std::vector<Buffer> &buffers) {
    for (uint32_t i = 0; i < buffers.size(); ++i)
      order_.push_back(i);
    llvm::stable_sort(order_,
                      [&](uint32_t a, uint32_t b) { return buffers[a].begin < buffers[b].begin; });
    for (uint32_t i : order_)
      numSteps_ = std::max(numSteps_, buffers[i].end);
    begins_.assign(numSteps_ + 1, 0);
    for (const Buffer &b : buffers)
      ++begins_[b.begin + 1];
    for (uint32_t s = 0; s < numSteps_; ++s)
      begins_[s + 1] += begins_[s];
    leaves_ = static_cast<uint32_t>(llvm::PowerOf2Ceil(std::max<size_t>(1, buffers.size())));
    nodes_.resize(2 * leaves_);
  }

  uint32_t numSteps() const { return numSteps_; }

  // Puts all buffers back.
  template <typename Rank> void fill(const std::vector<Buffer> &buffers, Rank rank) {
    std::fill(nodes_.begin() + leaves_, nodes_.end(), Node());
    for (uint32_t k = 0; k < order_.size(); ++k)
      nodes_[leaves_ + k] = {rank(order_[k]), buffers[order_[k]].end};
    for (uint32_t n = leaves_; n-- > 1;)
      nodes_[n] = both(nodes_[2 * n], nodes_[2 * n + 1]);
  }

  // Takes the buffer of highest rank that lives within the half-open range of steps; kNone if there
  // is none.
  static constexpr uint32_t kNone = ~0u;
  uint32_t take(uint32_t begin, uint32_t end, int64_t &work) {
    best_ = kNone;
    bestRank_ = -1;
    visits_ = 0;
    search(1, 0, leaves_, begins_[begin], begins_[end], end);
    work += visits_;
    if (best_ == kNone)
      return kNone;
    uint32_t n = leaves_ + best_;
    nodes_[n] = Node();
    while (n /= 2)
      nodes_[n] = both(nodes_[2 * n], nodes_[2 * n + 1]);
    return order_[best_];
  }

private:
  struct Node {
    float rank = -1;    // the highest rank below the node
    uint32_t end = ~0u; // the earliest end below the node
  };
  static Node both(Node a, Node b) { return {std::max(a.rank, b.rank), std::min(a.end, b.end)}; }

  void search(uint32_t node, uint32_t low, uint32_t high, uint32_t from, uint32_t to,
              uint32_t end) {
    ++visits_;
    if (low >= to || high <= from || nodes_[node].rank <= bestRank_ || nodes_[node].end > end)
      return;
    if (high - low == 1) {
      best_ = low;
      bestRank_ = nodes_[node].rank;
      return;
    }
    const uint32_t left = 2 * node, right = left + 1, middle = (low + high) / 2;
    if (nodes_[left].rank >= nodes_[right].rank) {
      search(left, low, middle, from, to, end);
      search(right, middle, high, from, to, end);
    } else {
      search(right, middle, high, from, to, end);
      search(left, low, middle, from, to, end);
    }
  }

  std::vector<uint32_t> order_;  // buffers by first step
  std::vector<uint32_t> begins_; // by step, into `order_`
  std::vector<Node> nodes_;      // of the tree; the root is 1
  uint32_t numSteps_ = 0, leaves_ = 1;
  uint32_t best_ = kNone, visits_ = 0; // during a search
  float bestRank_ = -1;
};

// The occupied height at each step, as stretches in the order of time.
class Skyline {
public:
  using Index = uint32_t;
  static constexpr Index kNone = ~0u;
  struct Stretch {
    uint32_t begin, end; // steps, half-open
    int64_t height;
    Index before = kNone, after = kNone;
    bool isGone = false;
  };

  explicit Skyline(uint32_t numSteps) { add(0, numSteps, 0); }

  Index lowest() {
    for (;; queue_.pop()) {
      const auto [height, i] = queue_.top();
      if (!all_[i].isGone && all_[i].height == height)
        return i;
    }
  }
  const Stretch &operator[](Index i) const { return all_[i]; }

  // Raises a stretch to the lower of its neighbours' heights.
  void level(Index i) { raise(i, std::min(heightOf(all_[i].before), heightOf(all_[i].after))); }

  // Puts a buffer on a part of a stretch; the remainders on either side keep their height.
  void put(Index i, uint32_t begin, uint32_t end, int64_t bytes) {
    const Stretch was = all_[i];
    if (was.begin < begin) {
      Index left = add(was.begin, begin, was.height);
      join(was.before, left);
      join(left, i);
      all_[i].begin = begin;
    }
    if (end < was.end) {
      Index right = add(end, was.end, was.height);
      join(right, was.after);
      join(i, right);
      all_[i].end = end;
    }
    raise(i, was.height + std::min(bytes, OffsetAssignment::kHighest - was.height));
  }

private:
  Index add(uint32_t begin, uint32_t end, int64_t height) {
    all_.push_back({begin, end, height});
    Index i = static_cast<Index>(all_.size() - 1);
    queue_.push({height, i});
    return i;
  }
  int64_t heightOf(Index i) const {
    return i == kNone ? std::numeric_limits<int64_t>::max() : all_[i].height;
  }
  void join(Index left, Index right) {
    if (left != kNone)
      all_[left].after = right;
    if (right != kNone)
      all_[right].before = left;
  }

  // Raises a stretch and merges neighbours of the new height into it.
  void raise(Index i, int64_t to) {
    Stretch &s = all_[i];
    s.height = to;
    if (heightOf(s.before) == to) {
      Stretch &gone = all_[s.before];
      gone.isGone = true;
      s.begin = gone.begin;
      join(gone.before, i);
    }
    if (heightOf(s.after) == to) {
      Stretch &gone = all_[s.after];
      gone.isGone = true;
      s.end = gone.end;
      join(i, gone.after);
    }
    queue_.push({to, i});
  }

  using Item = std::pair<int64_t, Index>;
  std::vector<Stretch> all_;
  std::priority_queue<Item, std::vector<Item>, std::greater<Item>> queue_;
};

class Filling {
public:
  explicit Filling(OffsetAssignment &p)
      : p_(p), waiting_(p.buffers), complaints_(p.buffers.size(), 0), offsets_(p.buffers.size()) {}

  // Buffers that end above the height complain, which raises their rank in later fillings.
  void fill(int64_t height, float noise) {
    waiting_.fill(p_.buffers, [&](uint32_t i) { return rank(i, noise); });
    const float complaint =
        std::max(kLeastComplaint, kFirstComplaint / (1 + float(++numFillings_) / kFewFillings));
    Skyline sky(waiting_.numSteps());
    p_.work += 60 * int64_t(p_.buffers.size());
    for (size_t left = p_.buffers.size(); left > 0;) {
      p_.ask();
      if (p_.mayEnd())
        return;
      Skyline::Index at = sky.lowest();
      const Skyline::Stretch valley = sky[at];
      uint32_t i = waiting_.take(valley.begin, valley.end, p_.work);
      if (i == Waiting::kNone) {
        sky.level(at);
        continue;
      }
      const Buffer &b = p_.buffers[i];
      offsets_[i] = valley.height;
      sky.put(at, b.begin, b.end, b.bytes);
      if (b.bytes > height - valley.height)
        complaints_[i] += complaint;
      --left;
    }
    p_.offer(offsets_);
  }

private:
  float rank(uint32_t i, float noise) {
    const Buffer &b = p_.buffers[i];
    float area = float(b.bytes) * float(b.end - b.begin);
    float blur = noise > 0 ? noise * float(p_.below(1 << 20)) / float(1 << 20) : 0;
    return area * (1 + complaints_[i]) * (1 + blur);
  }

  OffsetAssignment &p_;
  Waiting waiting_;
  uint32_t numFillings_ = 0;
  std::vector<float> complaints_;
  std::vector<int64_t> offsets_;
};

class SkylineSearch final : public OffsetSearch {
public:
  SkylineSearch(OffsetAssignment &p, int64_t enough) : p_(p), enough_(enough), filling_(p) {}

  // (The first filling is made in any case.)
  void run(int64_t turn, int64_t most) override {
    const int64_t untilWork = std::min(p_.work + turn, most);
    for (; p_.least > std::max(enough_, p_.bound) && (isFirst_ || p_.work < untilWork);
         isFirst_ = false)
      filling_.fill(enough_, isFirst_ ? 0 : kNoise);
  }

private:
  OffsetAssignment &p_;
  const int64_t enough_;
  Filling filling_;
  bool isFirst_ = true;
};

} // namespace

std::unique_ptr<OffsetSearch> skylineSearch(OffsetAssignment &p, int64_t enough) {
  return std::make_unique<SkylineSearch>(p, enough);
}

} // namespace isthmus
