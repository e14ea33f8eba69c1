// Loops over threads and vector lanes. Neither may change a bit of any result: threads share out
// independent outputs, and lanes are the compiler's, which keeps the meaning of every loop.
#pragma once

#include "runtime/kernel.h"
#include "runtime/team.h"
#include <algorithm>
#include <omp.h>
#include <type_traits>

namespace isthmus::plain {

// A plain kernel runs on the threads it was prepared for: OpenMP loops inside `run` use that many.
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

// For the table: `table.add({"sum", "plain", prepareThreaded<runSum>})`.
template <PlainFunction run>
std::unique_ptr<PreparedKernel> prepareThreaded(const OpCall &call, const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(preparePlain(call, run), options.threads);
}

// Calls body(begin, end) on pieces of [0, n), each of `grain` at least if there are several. Pieces
// depend on the number of threads, so body(i, i + 1) must not care which piece i is in.
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

// Elements below which a second thread costs more than it saves.
constexpr int64_t kGrain = 16384;

// Runs `loop` compiled for this machine's vector units: it is inlined, with all that it calls
// (`flatten`), into a function compiled for AVX2. Contraction is off, so the bits are those of the
// loop elsewhere. One instance suffices where memory is the limit, and each more adds as much again
// to what is compiled.
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

// The same for loops over elements of type T; few integer tensors are large enough to compile
// theirs twice.
template <typename T, typename Loop> void vectorisedFor(Loop loop) {
  if constexpr (std::is_integral_v<T>)
    loop();
  else
    vectorised(loop);
}

} // namespace isthmus::plain
