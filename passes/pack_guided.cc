// Packing by guided local search at a given height.
//
// All blocks lie below the height from the start, and overlap; the search moves one at a time to
// where its weighted overlap with the others is least, and where no move helps, the overlaps that
// are left weigh more from then on (Voudouris and Tsang 1999; for rectangles Faroe, Pisinger and
// Zachariasen 2003). It starts from the largest blocks first, each as low as it goes: an arena
// rarely fails for its small blocks.

#include "passes/pack_search.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace isthmus {
namespace {

constexpr size_t kMostMeetings = 10'000'000; // pairs of blocks, each counted twice; 8 bytes each
constexpr double kBump = 0.1;                // what a stubborn overlap weighs more

// Who is alive together with whom, among the blocks of some size.
class Meetings {
public:
  struct Meeting {
    uint32_t other;
    float weight;
  };

  Meetings(const Packing &p, int64_t leastBytes) : first_(p.blocks.size() + 1, 0) {
    for (uint32_t i = 0; i < p.blocks.size(); ++i)
      if (p.blocks[i].bytes >= leastBytes)
        members.push_back(i);
    llvm::stable_sort(
        members, [&](uint32_t a, uint32_t b) { return p.blocks[a].first < p.blocks[b].first; });
    sweep(p, [&](uint32_t i, uint32_t j) {
      ++first_[i + 1];
      ++first_[j + 1];
    });
    for (size_t i = 1; i < first_.size(); ++i)
      first_[i] += first_[i - 1];
    all_.resize(first_.back());
    std::vector<uint32_t> next(first_.begin(), first_.end() - 1);
    sweep(p, [&](uint32_t i, uint32_t j) {
      all_[next[i]++] = {j, 1};
      all_[next[j]++] = {i, 1};
    });
  }

  llvm::MutableArrayRef<Meeting> of(uint32_t i) {
    return {all_.data() + first_[i], all_.data() + first_[i + 1]};
  }
  size_t size() const { return all_.size(); }

  std::vector<uint32_t> members; // by start

private:
  template <typename Visit> void sweep(const Packing &p, Visit visit) const {
    std::vector<uint32_t> live;
    for (uint32_t i : members) {
      llvm::erase_if(live, [&](uint32_t j) { return p.blocks[j].last < p.blocks[i].first; });
      for (uint32_t j : live)
        visit(i, j);
      live.push_back(i);
    }
  }

  std::vector<size_t> first_; // by block, into `all_`
  std::vector<Meeting> all_;
};

// How many meetings there are of blocks of some size.
size_t countMeetings(const Packing &p, int64_t leastBytes) {
  std::vector<uint32_t> begins, ends;
  for (const Block &b : p.blocks)
    if (b.bytes >= leastBytes) {
      begins.push_back(b.first);
      ends.push_back(b.last);
    }
  llvm::sort(begins);
  llvm::sort(ends);
  size_t pairs = 0, gone = 0;
  for (size_t come = 0; come < begins.size(); ++come) {
    while (ends[gone] < begins[come])
      ++gone;
    pairs += come - gone;
  }
  return 2 * pairs;
}

// The meetings of one block with others that have one offset and size, as one. A hash table that
// is emptied by counting rounds.
class Merged {
public:
  struct Item {
    int64_t offset, bytes;
    double weight;
  };

  void clear(size_t most) {
    size_t need = llvm::PowerOf2Ceil(2 * most + 2);
    if (need > slots_.size())
      slots_.assign(need, {0, 0});
    ++round_;
    items.clear();
  }

  void add(int64_t offset, int64_t bytes, double weight) {
    uint64_t hash = (uint64_t(offset) * 0x9E3779B97F4A7C15 + uint64_t(bytes)) * 0xC2B2AE3D27D4EB4F;
    for (size_t k = hash >> 32;; ++k) {
      auto &[round, item] = slots_[k & (slots_.size() - 1)];
      if (round != round_) {
        round = round_;
        item = static_cast<uint32_t>(items.size());
        items.push_back({offset, bytes, weight});
        return;
      }
      if (items[item].offset == offset && items[item].bytes == bytes) {
        items[item].weight += weight;
        return;
      }
    }
  }

  std::vector<Item> items;

private:
  std::vector<std::pair<uint32_t, uint32_t>> slots_; // round, item
  uint32_t round_ = 0;
};

// A placement at work; blocks of some size are looked at, the others wait.
class Guided {
public:
  Guided(Packing &p, int64_t leastBytes)
      : p_(p), meetings_(p, leastBytes), overlaps_(p.blocks.size()),
        placeInBad_(p.blocks.size(), kNone) {
    p_.work += int64_t(meetings_.size());
  }

  // The largest first, each as low as it goes among those that have a place. Of two of one size
  // that first which the tie says.
  enum class Tie : uint8_t { LaterEnd, Earlier, LongerLife };
  void placeRest(std::vector<int64_t> &offsets, Tie tie) {
    std::vector<uint32_t> rest;
    llvm::copy_if(meetings_.members, std::back_inserter(rest),
                  [&](uint32_t i) { return offsets[i] == kUnplaced; });
    auto key = [&](uint32_t i) {
      const Block &b = p_.blocks[i];
      return std::pair(-b.bytes, tie == Tie::LongerLife ? int64_t(b.first) - int64_t(b.last)
                                 : tie == Tie::Earlier  ? int64_t(b.first)
                                                        : -int64_t(b.last));
    };
    llvm::stable_sort(rest, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
    for (uint32_t i : rest)
      offsets[i] = lowest(offsets, i);
  }

  // Moves blocks until none overlap below the height.
  bool search(std::vector<int64_t> &offsets, int64_t height, int64_t untilWork) {
    height_ = height;
    offsets_.swap(offsets);
    for (uint32_t i : meetings_.members)
      offsets_[i] = std::min(offsets_[i], height - p_.blocks[i].bytes);
    findBad();
    size_t stuck = 0;
    while (!bad_.empty() && p_.work < untilWork) {
      uint32_t i = bad_[p_.below(bad_.size())];
      double now = costNow(i);
      auto [offset, cost] = bestOffset(i);
      bool isBetter = cost < now * (1 - 1e-9);
      stuck = isBetter ? 0 : stuck + 1;
      if (isBetter || (cost <= now * (1 + 1e-9) && offset != offsets_[i]))
        move(i, offset);
      if (stuck > bad_.size()) {
        stuck = 0;
        bump();
      }
    }
    offsets_.swap(offsets);
    return bad_.empty();
  }

  // Without overlaps, whatever the height: lowest first, each as low as it goes.
  void settle(std::vector<int64_t> &offsets) {
    std::vector<uint32_t> order = meetings_.members;
    llvm::stable_sort(order, [&](uint32_t a, uint32_t b) { return offsets[a] < offsets[b]; });
    for (uint32_t i : order)
      offsets[i] = kUnplaced;
    for (uint32_t i : order)
      offsets[i] = lowest(offsets, i);
  }

private:
  static constexpr uint32_t kNone = ~0u;
  using Meeting = Meetings::Meeting;

  int64_t lowest(const std::vector<int64_t> &offsets, uint32_t i) {
    merged_.clear(meetings_.of(i).size());
    for (const Meeting &m : meetings_.of(i))
      if (offsets[m.other] != kUnplaced)
        merged_.add(offsets[m.other], p_.blocks[m.other].bytes, 0);
    llvm::sort(merged_.items, [](const auto &a, const auto &b) { return a.offset < b.offset; });
    p_.work += 8 + 4 * int64_t(meetings_.of(i).size()) + 6 * int64_t(merged_.items.size());
    int64_t at = 0;
    for (const Merged::Item &taken : merged_.items) {
      if (taken.offset - at >= p_.blocks[i].bytes)
        break;
      at = std::max(at, taken.offset + taken.bytes);
    }
    return at;
  }

  int64_t overlap(uint32_t i, uint32_t j) const {
    int64_t from = std::max(offsets_[i], offsets_[j]),
            to = std::min(offsets_[i] + p_.blocks[i].bytes, offsets_[j] + p_.blocks[j].bytes);
    return std::max<int64_t>(0, to - from);
  }

  double costNow(uint32_t i) {
    double cost = 0;
    for (const Meeting &m : meetings_.of(i))
      cost += double(m.weight) * double(overlap(i, m.other));
    return cost;
  }

  // As a function of the offset, the overlap with another block rises, stays and falls; the sum is
  // least at a bend of one of them.
  std::pair<int64_t, double> bestOffset(uint32_t i) {
    const int64_t bytes = p_.blocks[i].bytes, last = height_ - bytes;
    bends_.clear();
    double cost = 0, slope = 0;
    merged_.clear(meetings_.of(i).size());
    for (const Meeting &m : meetings_.of(i))
      merged_.add(offsets_[m.other], p_.blocks[m.other].bytes, m.weight);
    for (auto [at, size, w] : merged_.items) {
      int64_t most = std::min(bytes, size);
      cost +=
          w * double(std::max<int64_t>(0, std::min(bytes, at + size) - std::max<int64_t>(0, at)));
      auto bend = [&](int64_t x, double change) {
        if (x <= 0)
          slope += change;
        else if (x <= last)
          bends_.emplace_back(x, change);
      };
      bend(at - bytes, w);
      bend(at - bytes + most, -w);
      bend(at + size - most, -w);
      bend(at + size, w);
    }
    llvm::sort(bends_, [](const auto &a, const auto &b) { return a.first < b.first; });
    p_.work += 8 + 4 * int64_t(meetings_.of(i).size()) + 6 * int64_t(bends_.size());
    double least = cost;
    int64_t best = 0, x = 0;
    uint32_t ties = 1;
    auto consider = [&](int64_t to) {
      cost += slope * double(to - x);
      x = to;
      double margin = 1e-6 * (1 + least);
      if (cost < least - margin) {
        least = cost;
        best = x;
        ties = 1;
      } else if (cost <= least + margin && x != best && p_.below(++ties) == 0) {
        best = x;
      }
    };
    for (size_t k = 0; k < bends_.size();) {
      consider(bends_[k].first);
      for (; k < bends_.size() && bends_[k].first == x; ++k)
        slope += bends_[k].second;
    }
    consider(last);
    return {best, std::max(0.0, least)};
  }

  void findBad() {
    for (uint32_t i : bad_)
      placeInBad_[i] = kNone;
    bad_.clear();
    for (uint32_t i : meetings_.members) {
      overlaps_[i] = 0;
      for (const Meeting &m : meetings_.of(i))
        overlaps_[i] += overlap(i, m.other) > 0;
      setBad(i, overlaps_[i] > 0);
    }
    p_.work += int64_t(meetings_.size());
  }

  void setBad(uint32_t i, bool isBad) {
    uint32_t &place = placeInBad_[i];
    if (isBad == (place != kNone))
      return;
    if (isBad) {
      place = static_cast<uint32_t>(bad_.size());
      bad_.push_back(i);
      return;
    }
    bad_[place] = bad_.back();
    placeInBad_[bad_[place]] = place;
    bad_.pop_back();
    place = kNone;
  }

  void move(uint32_t i, int64_t offset) {
    auto count = [&](uint32_t by) {
      for (const Meeting &m : meetings_.of(i))
        if (overlap(i, m.other) > 0) {
          overlaps_[i] += by;
          overlaps_[m.other] += by;
          setBad(m.other, overlaps_[m.other] > 0);
        }
    };
    count(-1u);
    offsets_[i] = offset;
    count(1);
    setBad(i, overlaps_[i] > 0);
    p_.work += 2 * int64_t(meetings_.of(i).size());
  }

  void bump() {
    for (uint32_t i : bad_)
      for (Meeting &m : meetings_.of(i))
        if (overlap(i, m.other) > 0)
          m.weight += kBump; // the other's too, for it is bad as well
  }

  Packing &p_;
  Meetings meetings_;
  int64_t height_ = 0;
  std::vector<int64_t> offsets_;           // while it searches
  std::vector<uint32_t> overlaps_;         // with how many
  std::vector<uint32_t> bad_, placeInBad_; // those that overlap
  Merged merged_;
  std::vector<std::pair<int64_t, double>> bends_; // offset, change of the slope
};

// Large blocks first, then smaller ones among them; the last level has all, where that is not too
// much.
class Levels {
public:
  explicit Levels(Packing &p) : p_(p) {
    int64_t least = p.peak / 300;
    while (countMeetings(p, least) > kMostMeetings)
      least *= 2;
    for (; countMeetings(p, least) <= kMostMeetings; least /= 10) {
      levels_.emplace_back(p, least);
      if (least == 0)
        break;
    }
  }

  bool placeBySize(Guided::Tie tie, int64_t height) {
    std::vector<int64_t> offsets(p_.blocks.size(), kUnplaced);
    levels_.back().placeRest(offsets, tie);
    return offer(offsets, height);
  }

  // From the offsets given.
  bool search(std::vector<int64_t> offsets, int64_t height, int64_t untilWork) {
    bool isSolved = true;
    for (Guided &level : levels_) {
      level.placeRest(offsets, Guided::Tie::LaterEnd);
      isSolved = isSolved && level.search(offsets, height, p_.work + (untilWork - p_.work) / 2);
    }
    if (!isSolved)
      levels_.back().settle(offsets);
    return offer(offsets, height);
  }

private:
  bool offer(std::vector<int64_t> &offsets, int64_t height) {
    placeOnTop(p_, offsets);
    p_.offer(offsets);
    return p_.least <= height;
  }

  Packing &p_;
  std::vector<Guided> levels_;
};

} // namespace

void packGuided(Packing &p, int64_t enough, int64_t untilWork) {
  Levels levels(p);
  for (Guided::Tie tie : {Guided::Tie::LaterEnd, Guided::Tie::Earlier, Guided::Tie::LongerLife})
    if (levels.placeBySize(tie, p.peak) || p.work >= untilWork)
      return;
  // The peak itself, from the largest first and from the best so far; then what is enough; then
  // ever closer to the least that was not ruled out.
  const std::vector<int64_t> none(p.blocks.size(), kUnplaced);
  auto search = [&](const std::vector<int64_t> &from, int64_t height, double share) {
    int64_t work = int64_t(share * double(untilWork - p.work));
    return levels.search(from, height, p.work + std::max<int64_t>(1000, work));
  };
  for (double share : {0.15, 0.2, 0.25, 0.3})
    if (search(none, p.peak, share) || search(p.best, p.peak, share))
      return;
  if (p.least > enough && !search(p.best, enough, 0.5))
    return;
  const int64_t close = p.peak / 5000;
  for (int64_t low = p.peak + 1; low + close < p.least && p.work < untilWork;) {
    int64_t height = low + (p.least - low) / 2;
    if (!search(p.best, height, 0.5))
      low = height + 1;
  }
}

} // namespace isthmus
