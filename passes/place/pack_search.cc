#include "passes/place/pack_search.h"

#include "passes/place/pack_holes.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

void placeOnTop(Packing &p, std::vector<int64_t> &offsets) {
  int64_t top = 0;
  std::vector<uint32_t> coming, leaving;
  for (uint32_t i = 0; i < p.blocks.size(); ++i)
    if (offsets[i] != kUnplaced)
      top = std::max(top, offsets[i] + p.blocks[i].bytes);
    else
      coming.push_back(i);
  leaving = coming;
  llvm::stable_sort(coming,
                    [&](uint32_t a, uint32_t b) { return p.blocks[a].first < p.blocks[b].first; });
  llvm::stable_sort(leaving,
                    [&](uint32_t a, uint32_t b) { return p.blocks[a].last < p.blocks[b].last; });
  Holes holes(INT64_MAX);
  size_t gone = 0;
  for (uint32_t i : coming) {
    for (; p.blocks[leaving[gone]].last < p.blocks[i].first; ++gone) {
      int64_t at = offsets[leaving[gone]] - top;
      holes.release(at, at + p.blocks[leaving[gone]].bytes);
    }
    offsets[i] = top + holes.take(p.blocks[i].bytes, Fit::Lowest);
    p.work += 8 + holes.count() / 2;
  }
}

} // namespace isthmus
