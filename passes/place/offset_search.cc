#include "passes/place/offset_search.h"

#include "passes/place/free_list.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

bool placeOnTop(OffsetAssignment &p, std::vector<int64_t> &offsets, int64_t highest) {
  int64_t top = 0;
  std::vector<uint32_t> coming, leaving;
  for (uint32_t i = 0; i < p.buffers.size(); ++i)
    if (offsets[i] != kUnplaced)
      top = std::max(top, offsets[i] + p.buffers[i].bytes);
    else
      coming.push_back(i);
  leaving = coming;
  llvm::stable_sort(
      coming, [&](uint32_t a, uint32_t b) { return p.buffers[a].begin < p.buffers[b].begin; });
  llvm::stable_sort(leaving,
                    [&](uint32_t a, uint32_t b) { return p.buffers[a].end < p.buffers[b].end; });
  FreeList free;
  size_t gone = 0;
  for (uint32_t i : coming) {
    for (; p.buffers[leaving[gone]].end <= p.buffers[i].begin; ++gone) {
      int64_t at = offsets[leaving[gone]] - top;
      free.release(at, at + p.buffers[leaving[gone]].bytes);
    }
    offsets[i] = top + free.take(p.buffers[i].bytes);
    p.work += 8 + free.count() / 2;
    if (offsets[i] > highest - p.buffers[i].bytes)
      return false;
  }
  return true;
}

} // namespace isthmus
