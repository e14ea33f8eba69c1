// Loops over threads and vector lanes. Neither changes a bit of any result: each thread computes
// its own outputs, and the compiler's vectorisation preserves the meaning of every loop.
#pragma once

#include "runtime/kernel.h"
#include "runtime/team.h"
#include <algorithm>
#include <omp.h>
#include <type_traits>

namespace isthmus::plain {

// A plain kernel with its number of threads: OpenMP loops inside `run` use that many.
class ThreadedKernel : public PreparedKernel {
public:
  ThreadedKernel(std::unique_ptr<PreparedKernel> inner, int threads)
      : inner_(std::move(inner)), threads_(threads) {}
  int64_t workspaceBytes() const override { return inner_->workspaceBytes(); }
  void run(const KernelArgs &args) override {
    TeamSize team(threads_);
    inner_->run(args);
  }

private:
  std::unique_ptr<PreparedKernel> inner_;
  int threads_;
};

// An entry for the table: `table.add({"sum", "plain", prepareThreaded<runSum>})`.
template <PlainFunction run>
std::unique_ptr<PreparedKernel> prepareThreaded(const OpCall &call, const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(preparePlain(call, run), options.threads);
}

// Calls body(begin, end) on pieces of [0, n). If there are several pieces, each has at least
// `grain` elements. The pieces depend on the number of threads, so the result of body(i, i + 1)
// must not depend on the piece.
template <typename Body> void parallelFor(int64_t n, int64_t grain, Body body) {
  int64_t pieces = std::min<int64_t>(omp_get_max_threads(), n / std::max<int64_t>(grain, 1));
  if (pieces <= 1) {
    if (n > 0)
      body(int64_t(0), n);
    return;
  }
#pragma omp parallel for num_threads(pieces) schedule(static, 1)
  for (int64_t p = 0; p < pieces; ++p)
    body(n * p / pieces, n * (p + 1) / pieces);
}

// The number of elements below which a second thread costs more than it saves.
constexpr int64_t kGrain = 16384;

// Runs `loop` compiled for this machine's vector units: the loop and all functions that it calls
// are inlined (`flatten`) into a function compiled for AVX2. Contraction is off, so the results
// have the same bits as without AVX2. There is only one instance, because most loops are limited by
// memory and each further instance would add as much compiled code again.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
template <typename Loop>
__attribute__((target("avx2,fma,f16c"), flatten, noinline)) void onAvx2(Loop &loop) {
  loop();
}
inline bool hasAvx2() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                          __builtin_cpu_supports("f16c");
  return has;
}
template <typename Loop> void vectorised(Loop loop) { hasAvx2() ? onAvx2(loop) : loop(); }
#else
template <typename Loop> void vectorised(Loop loop) { loop(); }
#endif

// The same for loops over elements of type T. Integer loops are compiled once, because few integer
// tensors are large.
template <typename T, typename Loop> void vectorisedFor(Loop loop) {
  if constexpr (std::is_integral_v<T>)
    loop();
  else
    vectorised(loop);
}

} // namespace isthmus::plain
