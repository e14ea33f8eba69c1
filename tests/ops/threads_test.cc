// Calls large enough to be split among threads give the same bits with any number of threads.

#include "kernels/plain/register.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

class Threads : public testing::TestWithParam<const char *> {};

INSTANTIATE_TEST_SUITE_P(
    Calls, Threads,
    testing::Values(
        "add(f32[300, 1001], f32[1001])", "mul(f32[7, 64, 33, 9], f32[64, 1, 1])",
        "tanh(bf16[123457])", "gelu(f32[100003])", "where(bool[400, 300], f32[400, 300], f32[])",
        "less(f64[99999], f64[99999])", "cast(f32[99999]) {type = f16}",
        "full() {dims = [99999], value = 2.5}", "transpose(f32[301, 517]) {perm = [1, 0]}",
        "transpose(f32[5, 300, 7, 11]) {perm = [0, 3, 1, 2]}",
        "broadcast(f32[301, 1]) {dims = [3, 301, 111]}",
        "slice(f32[400, 500]) {starts = [399, 3], limits = [-1, 499], steps = [-1, 2]}",
        "pad(f32[300, 301]) {low = [3, 4], high = [5, 6], mode = reflect}",
        "concat(f32[300, 100], f32[300, 301]) {axis = 1}",
        "split(f32[300, 401]) {axis = 1, sizes = [100, 301]}", "gather(f32[1000, 33], i64[4001])",
        "scatter_rows(i64[4001], f32[4001, 33]) {size = 1000}", "trilu(f32[3, 300, 301])",
        "sum(f32[3000001])", "sum(f32[1000, 777]) {axes = [0]}",
        "sum(bf16[1000, 777]) {axes = [1]}", "mean(f32[9, 65, 31, 17]) {axes = [0, 2, 3]}",
        "max(f32[500, 777])", "max_grad(f32[777], f32[500, 777], f32[777]) {axes = [0]}",
        "matmul_add(f32[301, 401], bf16[301, 203], bf16[203, 401])",
        "shorten(f32[301, 777]) {type = bf16}", "matmul(f32[301, 203], f32[203, 401])",
        "matmul(f32[301, 203], f32[203, 401], f32[401])",
        "conv(f32[2, 5, 19, 19], f32[7, 5, 3, 3]) {pads = [1, 1, 1, 1]}",
        "matmul(f32[5, 130, 70], f32[5, 131, 70]) {transpose_b = true}",
        "dropout(f32[300001]) {stream = 4}", "uniform() {dims = [300001], stream = 5}",
        "normal() {dims = [300001], stream = 6}"));

TEST_P(Threads, ChangeNoBit) {
  KernelTable kernels;
  registerPlainKernels(kernels);
  auto e = parseExample(GetParam());
  auto operands = drawOperands(*e);
  auto once = llvm::cantFail(interpretCall(kernels, e->call, operands, {1, {7, 3}}));
  for (int threads : {2, 3, 5}) {
    auto again = llvm::cantFail(interpretCall(kernels, e->call, operands, {threads, {7, 3}}));
    for (size_t i = 0; i < once.size(); ++i)
      EXPECT_TRUE(sameBits(once[i], again[i])) << threads << " threads";
  }
}

} // namespace
} // namespace isthmus
