// Distributes tasks over threads.
#pragma once

#include <cstdint>
#include <omp.h>

namespace isthmus::gemm {

// `floats` rounded up to a multiple of 64 bytes.
inline int64_t rounded64(int64_t floats) { return (floats + 15) / 16 * 16; }

// Calls task(i, workspace, threads) for i in [0, tasks). If `atOnce` is one, tasks run one after
// another, each on all `threads`. Otherwise `atOnce` threads run one task each, with `floats` of
// the workspace per thread.
template <typename Task>
void forEachTask(int64_t tasks, int64_t atOnce, int threads, float *workspace, int64_t floats,
                 Task task) {
  if (atOnce == 1) {
    for (int64_t i = 0; i < tasks; ++i)
      task(i, workspace, threads);
    return;
  }
#pragma omp parallel num_threads(atOnce)
  {
    int64_t me = omp_get_thread_num(), team = omp_get_num_threads();
    for (int64_t i = tasks * me / team; i < tasks * (me + 1) / team; ++i)
      task(i, workspace + me * floats, 1);
  }
}

} // namespace isthmus::gemm
