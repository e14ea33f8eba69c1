// Measures the memory bandwidth of the plain kernels: bytes read and written a second, and their
// share of memcpy's. Usage: bandwidth [threads] [calls...], with calls as in the op table's
// examples.

#include "kernels/plain/register.h"
#include "tests/testing/example.h"
#include "llvm/Support/Format.h"
#include <cstring>
#include <ctime>

using namespace isthmus;

namespace {

// With one thread, the thread's processor time, which other programs affect little; with several,
// the elapsed time.
bool onlyOwnTime = true;
double now() {
  timespec t;
  clock_gettime(onlyOwnTime ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Returns the least of several times, as other programs can only add time.
template <typename F> double seconds(F f) {
  double least = 1e9;
  for (int i = 0; i < 15; ++i) {
    double start = now();
    f();
    least = std::min(least, now() - start);
  }
  return least;
}

double memcpyBandwidth() {
  size_t bytes = size_t(64) << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  return 2 * double(bytes) / seconds([&] { memcpy(to.data(), from.data(), bytes); });
}

void measure(const KernelTable &kernels, const std::string &text, int threads, double copying) {
  auto e = parseExample(text);
  auto operands = drawOperands(*e);
  auto kernel = llvm::cantFail(kernels.prepare(e->call, {threads}));
  std::vector<Tensor> results;
  llvm::SmallVector<const void *, 4> in;
  llvm::SmallVector<void *, 4> out;
  for (const Tensor &t : operands)
    in.push_back(t.data);
  for (const Type &t : e->call.results) {
    results.push_back(Tensor::make(t, [](char *) {}));
    out.push_back(const_cast<char *>(results.back().data));
  }
  Tensor workspace = Tensor::make(Type(DType::U8, {kernel->workspaceBytes()}), [](char *) {});
  double time = seconds([&] { kernel->run({in, out, const_cast<char *>(workspace.data), {}}); });
  Cost cost = costOf(e->call);
  llvm::outs() << llvm::format("%8.2f ms %7.2f GB/s %5.0f %% %8.2f Gflop/s  ", 1e3 * time,
                               cost.bytes / time / 1e9, 100 * cost.bytes / time / copying,
                               cost.flops / time / 1e9)
               << text << "\n";
}

} // namespace

int main(int argc, char **argv) {
  KernelTable kernels;
  registerPlainKernels(kernels);
  int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  std::vector<std::string> calls(argv + std::min(argc, 2), argv + argc);
  if (calls.empty())
    calls = {"add(f32[4096, 4096], f32[4096, 4096])",
             "add(f32[4096, 4096], f32[4096])",
             "mul(f32[64, 256, 32, 32], f32[256, 1, 1])",
             "add(bf16[4096, 4096], bf16[4096, 4096])",
             "relu(f32[16777216])",
             "relu(f16[16777216])",
             "affine(f32[16777216]) {scale = 2.0}",
             "relu_grad(f32[16777216], f32[16777216])",
             "relu_grad(f32[16777216], bool[16777216])",
             "is_positive(f32[16777216])",
             "where(bool[16777216], f32[16777216], f32[])",
             "less(f32[16777216], f32[16777216])",
             "cast(f32[16777216]) {type = bf16}",
             "sqrt(f32[16777216])",
             "exp(f32[16777216])",
             "tanh(f32[16777216])",
             "sigmoid(f32[16777216])",
             "silu(f32[16777216])",
             "softplus(f32[16777216])",
             "gelu(f32[16777216])",
             "gelu(f32[16777216]) {approximate = tanh}",
             "gelu_grad(f32[16777216], f32[16777216])",
             "log(f32[16777216])",
             "full() {dims = [16777216]}",
             "transpose(f32[4096, 4096]) {perm = [1, 0]}",
             "transpose(f64[2048, 4096]) {perm = [1, 0]}",
             "transpose(bf16[4096, 4096]) {perm = [1, 0]}",
             "transpose(f32[16, 512, 16, 64]) {perm = [0, 2, 1, 3]}",
             "transpose(f32[64, 256, 1024]) {perm = [0, 2, 1]}",
             "broadcast(f32[4096]) {dims = [4096, 4096]}",
             "slice(f32[4096, 4096]) {starts = [0, 64], limits = [4096, 4032]}",
             "pad(f32[256, 64, 32, 32]) {low = [0, 0, 1, 1], high = [0, 0, 1, 1]}",
             "concat(f32[256, 32768], f32[256, 32768]) {axis = 1}",
             "gather(f32[32768, 512], i64[16384])",
             "scatter_rows(i64[16384], f32[16384, 512]) {size = 32768}",
             "sum(f32[16777216])",
             "sum(f32[4096, 4096]) {axes = [1]}",
             "sum(f32[4096, 4096]) {axes = [0]}",
             "sum(f32[64, 256, 32, 32]) {axes = [0, 2, 3]}",
             "sum(f32[1048576, 16]) {axes = [1]}",
             "sum(f32[1048576, 16]) {axes = [0]}",
             "sum(bf16[4096, 4096]) {axes = [1]}",
             "max(f32[4096, 4096]) {axes = [1]}",
             "max_grad(f32[4096], f32[4096, 4096], f32[4096]) {axes = [1]}",
             "dropout(f32[16777216]) {stream = 1}",
             "uniform() {dims = [16777216], stream = 1}",
             "normal() {dims = [4194304], stream = 1}",
             "matmul(f32[1024, 1024], f32[1024, 1024])",
             "matmul(f64[512, 512], f64[512, 512])",
             "matmul(bf16[512, 512], bf16[512, 512])"};
  double copying = memcpyBandwidth();
  onlyOwnTime = threads == 1;
  llvm::outs() << llvm::format("memcpy %.2f GB/s on one thread; kernels on %d\n", copying / 1e9,
                               threads);
  for (const std::string &text : calls)
    measure(kernels, text, threads, copying);
}
