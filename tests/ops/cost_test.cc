// Compares the costs of calls of known shapes with values that were computed by hand. A
// multiply-add counts as two, a transcendental function as about ten, and bytes are those read and
// written. Also tests the times that targets derive from costs.

#include "ir/target.h"
#include "tests/testing/example.h"
#include <gtest/gtest.h>
#include <set>

namespace isthmus {
namespace {

struct Case {
  const char *call;
  double flops, bytes;
};

const Case kCases[] = {
    // Products: 2 for each element of the result and each index of the inner axis, and 1 for a
    // bias.
    {"matmul(f32[8, 16], f32[16, 4])", 2 * 8 * 4 * 16, 4 * (8 * 16 + 16 * 4 + 8 * 4)},
    {"matmul(f32[16, 8], f32[4, 16]) {transpose_a = true, transpose_b = true}", 2 * 8 * 4 * 16,
     4 * (8 * 16 + 16 * 4 + 8 * 4)},
    {"matmul(bf16[8, 16], bf16[16, 4], bf16[4])", 8 * 4 * (2 * 16 + 1),
     2 * (8 * 16 + 16 * 4 + 4 + 8 * 4)},
    {"matmul(f32[5, 3, 8, 16], f32[3, 16, 4])", 2 * 15 * 8 * 4 * 16,
     4 * (15 * 8 * 16 + 3 * 16 * 4 + 15 * 8 * 4)}, // the second is read once for all five

    // Elimination: the cube of the rows in multiply-adds, and a third of that for a determinant.
    {"inverse(f32[5, 6, 6])", 2 * 5 * 216, 4 * 2 * 5 * 36},
    {"logabsdet(f32[2, 6, 6])", 2 * 2 * 72, 4 * (2 * 36 + 2)},

    // Backward batch norm: a difference, a product and a sum for each element, which is read once.
    {"batch_norm_inverse(f32[2, 3, 4], f32[3], f32[3], f32[3], f32[3])", 3 * 24,
     4 * (2 * 24 + 4 * 3)},

    // Convolutions: 2 for each multiply-add that computes the result of conv, whichever of the
    // three tensors is the result. Here that is [2, 6, 5, 9] of windows of 3 x 2 over 4 / 2
    // channels.
    {"conv(f32[2, 4, 9, 12], f32[6, 2, 3, 2]) {groups = 2, strides = [2, 1], pads = [1, 0, 1, 0], "
     "dilations = [1, 3]}",
     2 * (2 * 6 * 5 * 9) * (2 * 3 * 2), 4 * (2 * 4 * 9 * 12 + 6 * 2 * 3 * 2 + 2 * 6 * 5 * 9)},
    {"conv(f32[2, 9, 12, 4], f32[6, 3, 2, 2]) {channels_last = true, groups = 2, strides = [2, 1], "
     "pads = [1, 0, 1, 0], dilations = [1, 3]}",
     2 * (2 * 6 * 5 * 9) * (2 * 3 * 2), 4 * (2 * 4 * 9 * 12 + 6 * 2 * 3 * 2 + 2 * 6 * 5 * 9)},
    {"conv_transpose(f32[2, 6, 5, 9], f32[6, 2, 3, 2]) {groups = 2, strides = [2, 1], pads = [1, "
     "0, 1, 0], dilations = [1, 3], dims = [9, 12]}",
     2 * (2 * 6 * 5 * 9) * (2 * 3 * 2), 4 * (2 * 6 * 5 * 9 + 6 * 2 * 3 * 2 + 2 * 4 * 9 * 12)},
    {"conv_weight_grad(f32[2, 6, 5, 9], f32[2, 4, 9, 12]) {kernel = [3, 2], groups = 2, strides = "
     "[2, 1], pads = [1, 0, 1, 0], dilations = [1, 3]}",
     2 * (2 * 6 * 5 * 9) * (2 * 3 * 2), 4 * (2 * 6 * 5 * 9 + 2 * 4 * 9 * 12 + 6 * 2 * 3 * 2)},
    // Depthwise convolution: each channel by itself.
    {"conv(f32[1, 8, 6, 6], f32[8, 1, 3, 3]) {groups = 8, pads = [1, 1, 1, 1]}",
     2 * (8 * 6 * 6) * (3 * 3), 4 * (8 * 6 * 6 + 8 * 3 * 3 + 8 * 6 * 6)},

    // Attention: for each pair of a query and a key, 2 * 8 for their product, 2 * 4 for that with
    // the value, and 10 for an exponential. A causal query i reads keys 0 to i.
    {"attention(f32[2, 3, 10, 8], f32[2, 3, 12, 8], f32[2, 3, 12, 4]) {scale = 1}",
     6 * (10 * 12) * (2 * 8 + 2 * 4 + 10),
     4 * 6 * (10 * 8 + 12 * 8 + 12 * 4 + 10 * 4 + 10)}, // with the statistics
    {"attention(f32[10, 8], f32[10, 8], f32[10, 8]) {scale = 1, causal = true}",
     (10 * 11 / 2) * (2 * 8 + 2 * 8 + 10), 4 * (10 * 8 * 4 + 10)},
    // Its gradient: the scores again, two products for each element of ds, and dq, dk, dv.
    {"attention_grad(f32[10, 4], f32[10, 8], f32[12, 8], f32[12, 4], f32[10, 4], f32[10]) {scale "
     "= 1}",
     (10 * 12) * (3 * 2 * 8 + 2 * 2 * 4 + 14),
     4 * (10 * 4 + 10 * 8 + 12 * 8 + 12 * 4 + 10 * 4 + 10 + 10 * 8 + 12 * 8 + 12 * 4)},

    // Pools: one for each element of each window, also for gradients.
    {"max_pool(f32[2, 3, 9, 8]) {kernel = [3, 2], strides = [2, 2]}", (2 * 3 * 4 * 4) * (3 * 2),
     4 * (2 * 3 * 9 * 8 + 2 * 3 * 4 * 4)},
    {"avg_pool(f32[2, 3, 9, 8]) {kernel = [3, 2], dilations = [2, 1]}", (2 * 3 * 5 * 7) * (3 * 2),
     4 * (2 * 3 * 9 * 8 + 2 * 3 * 5 * 7)},
    {"max_pool_grad(f32[2, 3, 4, 4], f32[2, 3, 9, 8]) {kernel = [3, 2], strides = [2, 2]}",
     (2 * 3 * 4 * 4) * (3 * 2), 4 * (2 * 3 * 4 * 4 + 2 * (2 * 3 * 9 * 8))},

    // Norms read x twice, for the statistics and for the result; their gradients read g twice too.
    {"batch_norm(f32[4, 3, 5, 5], f32[3], f32[3], f32[3], f32[3])", 6 * (4 * 3 * 5 * 5),
     4 * (3 * (4 * 3 * 5 * 5) + 4 * 3 + 2 * 3)},
    {"layer_norm(f32[4, 10], f32[10], f32[10])", 6 * 40, 4 * (3 * 40 + 2 * 10 + 2 * 4)},
    {"layer_norm_grad(f32[4, 10], f32[4, 10], f32[10], f32[4, 1], f32[4, 1])", 10 * 40,
     4 * (2 * 40 + 2 * 40 + 40 + 10 + 2 * 4 + 2 * 10)},
    {"group_norm(f32[4, 6, 5], f32[6], f32[6]) {groups = 2}", 6 * 120,
     4 * (3 * 120 + 2 * 6 + 2 * 8)},

    // Elementwise ops: one for each element of the result, and about ten for a transcendental
    // function.
    {"add(f32[6, 5], f32[5])", 30, 4 * (30 + 5 + 30)},
    {"relu(f16[30])", 30, 2 * (30 + 30)},
    {"less(f64[30], f64[30])", 30, 8 * 60 + 30},
    {"where(bool[30], f32[30], f32[30])", 30, 30 + 4 * 90},
    {"cast(f32[30]) {type = bf16}", 30, 30 * (4 + 2)},
    {"tanh(f32[30])", 8 * 30, 4 * 60},
    {"softmax(f32[3, 10])", 10 * 30, 4 * 60},
    {"cross_entropy(f32[4, 10], i64[4])", 10 * 40, 4 * 40 + 8 * 4 + 4 * (1 + 4)},

    // Reductions: one for each element of the operand.
    {"sum(f32[6, 5]) {axes = [0]}", 30, 4 * (30 + 5)},
    {"mean(f32[6, 5])", 30, 4 * (30 + 1)},
    {"argmax(f32[6, 5]) {axis = 1}", 30, 4 * 30 + 8 * 6},
    {"logsumexp(f32[6, 5]) {axes = [1]}", 10 * 30, 4 * (30 + 6)},

    // Ops that only move elements: elements read, elements written, and indices.
    {"transpose(f32[6, 5]) {perm = [1, 0]}", 0, 4 * 60},
    {"broadcast(f32[5]) {dims = [6, 5]}", 0, 4 * (5 + 30)},
    {"slice(f32[100]) {starts = [10], limits = [20]}", 0, 4 * 20},
    {"pad(f32[10]) {low = [2], high = [3]}", 0, 4 * (10 + 15)},
    {"concat(f32[3, 2], f32[5, 2])", 0, 4 * 2 * 16},
    {"split(f32[8, 2]) {sizes = [3, 5]}", 0, 4 * 2 * 16},
    {"full() {dims = [10], value = 1.0}", 0, 4 * 10},
    // Only the requested rows of a table of 1000 rows are read.
    {"gather(f32[1000, 8], i64[5])", 0, 4 * 2 * 40 + 8 * 5},
    {"gather_elements(f32[1000, 8], i64[5, 8])", 0, 4 * 2 * 40 + 8 * 40},
    // The gradient writes zeros everywhere, and adds each row.
    {"scatter_rows(i64[5], f32[5, 8]) {size = 1000}", 40, 8 * 5 + 4 * (2 * 40 + 8000)},
    {"scatter_elements(f32[1000], i64[5], f32[5])", 5, 4 * (2 * 1000 + 2 * 5) + 8 * 5},

    // Random numbers are computed, and nothing is read.
    {"uniform() {dims = [30], stream = 0}", 10 * 30, 4 * 30},
    {"normal() {dims = [30], stream = 0}", 20 * 30, 4 * 30},
    {"dropout(f32[30]) {stream = 0}", 10 * 30, 4 * 60},
    {"dropout(f32[30]) {stream = 0, training = false}", 0, 4 * 60},

    // Views have no cost.
    {"reshape(f32[6, 5]) {dims = [30]}", 0, 0},
    {"identity(f32[30])", 0, 0},
    {"stop_gradient(f32[30])", 0, 0},

    // Empty tensors need no arithmetic.
    {"matmul(f32[0, 16], f32[16, 4])", 0, 4 * 16 * 4},
    {"add(f32[0], f32[0])", 0, 0},
};

class CostOf : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Calls, CostOf, testing::ValuesIn(kCases), [](const auto &info) {
  return std::to_string(info.index) + "_" +
         llvm::StringRef(info.param.call).take_until([](char c) { return c == '('; }).str();
});

TEST_P(CostOf, IsThatByHand) {
  const Case &c = GetParam();
  Cost cost = costOf(parseExample(c.call)->call);
  EXPECT_EQ(cost.flops, c.flops) << c.call;
  EXPECT_EQ(cost.bytes, c.bytes) << c.call;
}

// --- The roofline

// One flop and one byte take a microsecond each, and a launch takes 5.
Target slow() {
  Target t;
  t.flopsPerSecond = t.bytesPerSecond = 1e6;
  t.launchSeconds = 5e-6;
  return t;
}
double microseconds(const Target &t, const char *call) {
  return 1e6 * t.seconds(parseExample(call)->call);
}

TEST(Roofline, IsTheLongerOfArithmeticAndTrafficAndALaunch) {
  Target t = slow();
  EXPECT_DOUBLE_EQ(microseconds(t, "matmul(f32[8, 16], f32[16, 4])"), 5 + 1024); // 896 bytes
  EXPECT_DOUBLE_EQ(microseconds(t, "sum(f32[30])"), 5 + 4 * 31);                 // 30 flops
  t.bytesPerSecond = 1e7;
  EXPECT_DOUBLE_EQ(microseconds(t, "sum(f32[30])"), 5 + 30);
  EXPECT_DOUBLE_EQ(microseconds(t, "add(f32[0], f32[0])"), 5);
}

TEST(Roofline, OfViewsIsNothing) {
  EXPECT_EQ(microseconds(slow(), "reshape(f32[6]) {dims = [2, 3]}"), 0);
}

// A target may have rates for contractions by the narrowest type that they read. Contractions of
// other types, and other ops, have the common rate.
TEST(Roofline, HasRatesOfContractionsByType) {
  Target t = slow();
  t.bytesPerSecond = 1e12;
  t.contractionFlopsPerSecond[size_t(DType::BF16)] = 8e6;
  t.contractionFlopsPerSecond[size_t(DType::F64)] = 5e5;
  EXPECT_DOUBLE_EQ(microseconds(t, "matmul(bf16[8, 16], bf16[16, 4])"), 5 + 128);
  EXPECT_DOUBLE_EQ(microseconds(t, "matmul_add(f32[8, 4], bf16[8, 16], bf16[16, 4])"), 5 + 128);
  EXPECT_DOUBLE_EQ(microseconds(t, "matmul(f64[8, 16], f64[16, 4])"), 5 + 2048);
  EXPECT_DOUBLE_EQ(microseconds(t, "matmul(f32[8, 16], f32[16, 4])"), 5 + 1024);
  EXPECT_DOUBLE_EQ(microseconds(t, "conv(bf16[1, 2, 8], bf16[2, 2, 1])"), 5 + 8);
  EXPECT_DOUBLE_EQ(microseconds(t, "relu(bf16[64])"), 5 + 64);
  EXPECT_DOUBLE_EQ(microseconds(t, "uniform() {dims = [10], stream = 0, type = bf16}"), 5 + 100);
}

// --- Measured

TEST(MeasuredCosts, StandInPlaceOfTheRoofline) {
  Target t = slow();
  const double estimated = microseconds(t, "sum(f32[30])");
  auto costs = std::make_shared<MeasuredCosts>();
  costs->seconds[callKey(parseExample("sum(f32[20])")->call)] = 7e-6;
  costs->perEstimate = 3;
  t.measured = costs;
  EXPECT_DOUBLE_EQ(microseconds(t, "sum(f32[20])"), 7);
  EXPECT_DOUBLE_EQ(microseconds(t, "sum(f32[30])"), 3 * estimated); // not measured
  EXPECT_DOUBLE_EQ(1e6 * t.estimatedSeconds(parseExample("sum(f32[30])")->call), estimated);
  EXPECT_EQ(microseconds(t, "reshape(f32[6]) {dims = [2, 3]}"), 0);
}

// The key of a call holds everything that a kernel sees.
TEST(MeasuredCosts, AreOfCalls) {
  auto key = [](const char *call) { return callKey(parseExample(call)->call); };
  EXPECT_EQ(key("reshape(f32[6]) {dims = [2, 3]}"),
            "reshape(f32[6]) {dims = [2, 3]} : (f32[2, 3])");
  const std::set<std::string> keys = {key("sum(f32[20])"), key("sum(f64[20])"),
                                      key("mean(f32[20])"), key("sum(f32[4, 5])"),
                                      key("sum(f32[4, 5]) {axes = [1]}")};
  EXPECT_EQ(keys.size(), 5u);
}

} // namespace
} // namespace isthmus
