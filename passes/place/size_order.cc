#include "passes/place/offset_search.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <tuple>

namespace isthmus {
namespace {

// The most placed buffers that are looked at: a few tenths of a second.
constexpr int64_t kMostLooks = 100'000'000;
// With more buffers than this, that is hardly ever enough.
constexpr size_t kMostBuffers = 17'000;

struct Placed {
  int64_t offset, top;
  uint32_t begin, end;
};

} // namespace

bool placeBySize(const OffsetAssignment &p, std::vector<int64_t> &offsets) {
  if (p.buffers.size() > kMostBuffers)
    return false;
  std::vector<uint32_t> order(p.buffers.size());
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  llvm::stable_sort(order, [&](uint32_t a, uint32_t b) {
    const Buffer &x = p.buffers[a], &y = p.buffers[b];
    return std::tuple(-x.bytes, x.begin) < std::tuple(-y.bytes, y.begin);
  });
  std::vector<Placed> placed; // by offset
  placed.reserve(order.size());
  int64_t looks = 0;
  for (uint32_t i : order) {
    const Buffer &b = p.buffers[i];
    int64_t at = 0;
    auto next = placed.begin();
    for (; next != placed.end(); ++next) {
      if (next->end <= b.begin || b.end <= next->begin)
        continue;
      if (next->offset - at >= b.bytes)
        break;
      at = std::max(at, next->top);
    }
    looks += next - placed.begin();
    if (looks > kMostLooks || at > OffsetAssignment::kHighest - b.bytes)
      return false;
    const auto isBelow = [](const Placed &x, int64_t offset) { return x.offset < offset; };
    placed.insert(std::lower_bound(placed.begin(), placed.end(), at, isBelow),
                  {at, at + b.bytes, b.begin, b.end});
    offsets[i] = at;
  }
  return true;
}

} // namespace isthmus
