// Memory shared by the lanes of a team that has a block of its own: a team for rows of kOwnBlock.
#pragma once

#include "kernels/cuda/grid.h"

namespace isthmus::cuda {

constexpr int64_t kOwnBlock = 4 * kMaxLanes; // a row length for `forEachTeam`

// N elements; all calls with the same T and N in a kernel return the same memory. After
// `Team::forEach` all lanes see the writes. A kernel may use at most 48 KB.
template <typename T, int N> ISTHMUS_DEVICE T *sharedMemory() {
#if defined(__CUDACC__) && !defined(__CUDA_ARCH__)
  return nullptr; // host side of nvcc: never called
#else
  ISTHMUS_SHARED char memory[N * sizeof(T)];
  return reinterpret_cast<T *>(memory);
#endif
}

} // namespace isthmus::cuda
