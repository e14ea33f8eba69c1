// A GPU's threads, as grid.h and shared.h use them. Under nvcc they are CUDA's own. With
// ISTHMUS_EMULATED_THREADS defined any other compiler emulates them: every thread is a fiber, which
// runs until it waits for the others, in an order that a test chooses. So results that depend on
// the order, and waits that not all threads come to, are found without a GPU.
//
// A block has `teams()` teams of `lanes()` threads; each 32 threads in a row are a warp.
#pragma once

#include "kernels/cuda/queue.h"

namespace isthmus::cuda {

constexpr int kMaxLanes = 256; // threads in a block

} // namespace isthmus::cuda

// Otherwise there are no threads, and grid.h has loops.
#if defined(__CUDACC__) || defined(ISTHMUS_EMULATED_THREADS)
#define ISTHMUS_HAS_THREADS
#endif

#ifdef __CUDACC__

#define ISTHMUS_GPU __device__
#define ISTHMUS_KERNEL __global__ void __launch_bounds__(::isthmus::cuda::kMaxLanes)
#define ISTHMUS_SHARED __shared__ alignas(16)

namespace isthmus::cuda {

__device__ inline unsigned lane() { return threadIdx.x; }
__device__ inline unsigned lanes() { return blockDim.x; }
__device__ inline unsigned team() { return threadIdx.y; }
__device__ inline unsigned teams() { return blockDim.y; }
__device__ inline int64_t block() { return blockIdx.x; }
__device__ inline int64_t blocks() { return gridDim.x; }

__device__ inline void waitForBlock() { __syncthreads(); }
__device__ inline void waitForWarp() { __syncwarp(); }
// What `word` is in another thread of the warp.
__device__ inline uint32_t ofLaneInWarp(uint32_t word, unsigned lane) {
  return __shfl_sync(0xffffffffu, word, int(lane));
}

} // namespace isthmus::cuda

#else

#define ISTHMUS_GPU
#define ISTHMUS_KERNEL void
#define ISTHMUS_SHARED alignas(16) static

#ifdef ISTHMUS_EMULATED_THREADS

namespace isthmus::cuda {

struct EmulatedThread {
  unsigned lane, lanes, team, teams;
  int64_t block, blocks;
};
extern thread_local EmulatedThread thisThread;

inline unsigned lane() { return thisThread.lane; }
inline unsigned lanes() { return thisThread.lanes; }
inline unsigned team() { return thisThread.team; }
inline unsigned teams() { return thisThread.teams; }
inline int64_t block() { return thisThread.block; }
inline int64_t blocks() { return thisThread.blocks; }

void waitForBlock();
void waitForWarp();
uint32_t ofLaneInWarp(uint32_t word, unsigned lane);

// The order in which blocks, and between two waits a block's threads, run from now on: ascending,
// descending, or another one for each larger number.
void emulateInOrder(uint64_t order);
// Runs `thread` as every thread of the grid. Ends the program where a wait can never end. Threads
// that do not wait for others are emulated faster if that is known.
void emulateThreads(int64_t blocks, int lanes, int teams, bool wait,
                    const std::function<void()> &thread);

} // namespace isthmus::cuda

#endif
#endif
