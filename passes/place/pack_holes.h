// The free ranges of an arena at one step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace isthmus {

enum class Fit : uint8_t { Lowest, Highest, Tightest };

// Sorted and merged; the last has no end. A vector, since there are few.
class Holes {
public:
  explicit Holes(int64_t height) : height_(height), holes_{{0, INT64_MAX}} {}

  // Takes the lowest, highest or tightest hole below the height; where none is large enough, the
  // lowest at all.
  int64_t take(int64_t bytes, Fit fit) {
    size_t k = find(bytes, fit);
    int64_t end = std::min(holes_[k].end, height_);
    int64_t at =
        fit == Fit::Highest && end - holes_[k].begin >= bytes ? end - bytes : holes_[k].begin;
    Hole above{at + bytes, holes_[k].end};
    holes_[k].end = at;
    if (above.begin < above.end)
      holes_.insert(holes_.begin() + k + 1, above);
    if (holes_[k].begin == at)
      holes_.erase(holes_.begin() + k);
    return at;
  }

  void release(int64_t begin, int64_t end) {
    auto next = std::lower_bound(holes_.begin(), holes_.end(), begin,
                                 [](const Hole &h, int64_t at) { return h.begin < at; });
    bool meetsNext = next->begin == end,
         meetsPrevious = next != holes_.begin() && std::prev(next)->end == begin;
    if (meetsNext && meetsPrevious) {
      std::prev(next)->end = next->end;
      holes_.erase(next);
    } else if (meetsNext) {
      next->begin = begin;
    } else if (meetsPrevious) {
      std::prev(next)->end = end;
    } else {
      holes_.insert(next, {begin, end});
    }
  }

  int64_t count() const { return static_cast<int64_t>(holes_.size()); }

private:
  struct Hole {
    int64_t begin, end;
  };

  int64_t room(size_t k) const { return std::min(holes_[k].end, height_) - holes_[k].begin; }

  size_t find(int64_t bytes, Fit fit) const {
    size_t found = holes_.size();
    for (size_t k = 0; k < holes_.size(); ++k)
      if (room(k) >= bytes &&
          (found == holes_.size() || fit == Fit::Highest || room(k) < room(found))) {
        found = k;
        if (fit == Fit::Lowest)
          break;
      }
    if (found == holes_.size())
      for (found = 0; holes_[found].end - holes_[found].begin < bytes;)
        ++found;
    return found;
  }

  int64_t height_;
  std::vector<Hole> holes_;
};

} // namespace isthmus
