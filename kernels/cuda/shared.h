// Memory that the lanes of a team share, where the team has a block for itself: one for rows of
// kOwnBlock.
#pragma once

#include "kernels/cuda/grid.h"

namespace isthmus::cuda {

constexpr int64_t kOwnBlock = 4 * kMaxLanes; // a row's length for `forEachTeam`

// N elements, the same ones wherever a kernel asks for such; `Team::forEach` ends with all lanes
// seeing what was written. At most 48 KB in all of a kernel.
template <typename T, int N> ISTHMUS_DEVICE T *sharedMemory() {
#if defined(__CUDACC__) && !defined(__CUDA_ARCH__)
  return nullptr; // of the host: never called
#else
  ISTHMUS_SHARED char memory[N * sizeof(T)];
  return reinterpret_cast<T *>(memory);
#endif
}

} // namespace isthmus::cuda
