#include "passes/place/offset_search.h"

#include "passes/place/free_list.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

bool placeInTime(const OffsetAssignment &p, std::vector<int64_t> &offsets, int64_t highest) {
  std::vector<uint32_t> coming(p.buffers.size());
  for (uint32_t i = 0; i < coming.size(); ++i)
    coming[i] = i;
  std::vector<uint32_t> leaving = coming;
  llvm::stable_sort(
      coming, [&](uint32_t a, uint32_t b) { return p.buffers[a].begin < p.buffers[b].begin; });
  llvm::stable_sort(leaving,
                    [&](uint32_t a, uint32_t b) { return p.buffers[a].end < p.buffers[b].end; });
  FreeList free;
  size_t gone = 0;
  for (uint32_t i : coming) {
    for (; p.buffers[leaving[gone]].end <= p.buffers[i].begin; ++gone) {
      const int64_t at = offsets[leaving[gone]];
      free.release(at, at + p.buffers[leaving[gone]].bytes);
    }
    offsets[i] = free.take(p.buffers[i].bytes);
    if (offsets[i] > highest - p.buffers[i].bytes)
      return false;
  }
  return true;
}

} // namespace isthmus
