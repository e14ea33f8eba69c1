// The free ranges of an arena at one step; first fit (Knuth, The Art of Computer Programming 1,
// section 2.5).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace isthmus {

// The ranges are sorted and merged; the last one has no end. They are few, so a vector will do.
class FreeList {
public:
  // Takes bytes from the lowest range that is large enough, and returns their offset.
  int64_t take(int64_t bytes) {
    auto found = ranges_.begin();
    while (found->end - found->begin < bytes)
      ++found;
    const int64_t at = found->begin;
    found->begin += bytes;
    if (found->begin == found->end)
      ranges_.erase(found);
    return at;
  }

  void release(int64_t begin, int64_t end) {
    auto next = std::lower_bound(ranges_.begin(), ranges_.end(), begin,
                                 [](const Range &r, int64_t at) { return r.begin < at; });
    bool meetsNext = next->begin == end,
         meetsPrevious = next != ranges_.begin() && std::prev(next)->end == begin;
    if (meetsNext && meetsPrevious) {
      std::prev(next)->end = next->end;
      ranges_.erase(next);
    } else if (meetsNext) {
      next->begin = begin;
    } else if (meetsPrevious) {
      std::prev(next)->end = end;
    } else {
      ranges_.insert(next, {begin, end});
    }
  }

private:
  struct Range {
    int64_t begin, end;
  };

  std::vector<Range> ranges_ = {{0, INT64_MAX}};
};

} // namespace isthmus
