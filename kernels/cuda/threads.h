// A GPU's threads, for grid.h and shared.h. Under nvcc they are CUDA's own. Other compilers emulate
// them if ISTHMUS_EMULATED_THREADS is defined: every thread is a fiber that runs until it waits for
// other threads, in an order that a test chooses. So tests without a GPU find results that depend
// on the order, and barriers that not all threads reach.
//
// A block has `teams()` teams of `lanes()` threads; each 32 consecutive threads are a warp.
#pragma once

#include "kernels/cuda/queue.h"

namespace isthmus::cuda {

constexpr int kMaxLanes = 256; // threads in a block

} // namespace isthmus::cuda

// Without this macro there are no threads, and grid.h uses loops.
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
// The value of `word` in another thread of the warp.
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

// Sets the order in which blocks run, and in which a block's threads run between two waits: 0 is
// ascending, 1 descending, and any larger number a new random order each time.
void emulateInOrder(uint64_t order);
// Runs `thread` as every thread of the grid. Aborts the program if a wait can never end. `wait`:
// whether threads may wait for others; without waits the emulation is faster.
void emulateThreads(int64_t blocks, int lanes, int teams, bool wait,
                    const std::function<void()> &thread);

} // namespace isthmus::cuda

#endif
#endif
