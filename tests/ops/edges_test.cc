// Tests edge cases that random operands do not meet, of functions, reductions and scatters: NaN,
// infinities, ties, zero factors, indices out of range, empty sets.

#include "kernels/plain/register.h"
#include "passes/differentiate/differentiate.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using Values = std::vector<double>;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Values> runAll(llvm::StringRef text, std::vector<Values> values) {
  auto e = parseExample(text);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < values.size(); ++i)
    operands.push_back(fromDoubles(e->call.operands[i], values[i]));
  std::vector<Values> out;
  for (const Tensor &t : llvm::cantFail(interpretCall(plainKernels(), e->call, operands, {1, {}})))
    out.push_back(toDoubles(t));
  return out;
}
Values run(llvm::StringRef text, std::vector<Values> values) { return runAll(text, values)[0]; }

// The gradient of the sum of the results' elements with respect to operand `by`.
Values gradient(llvm::StringRef text, std::vector<Values> values, size_t by) {
  auto e = parseExample(text);
  Graph g;
  llvm::DenseMap<ValueId, Tensor> at;
  ValueList in;
  for (size_t i = 0; i < values.size(); ++i) {
    in.push_back(
        llvm::cantFail(g.addInput(InputKind::Input, "x" + std::to_string(i), e->call.operands[i])));
    at[in[i]] = fromDoubles(e->call.operands[i], values[i]);
  }
  NodeId n = llvm::cantFail(g.addNode(*e->call.op, in, *e->call.attrs));
  ValueId y = g.node(n).firstResult;
  ValueId seed = llvm::cantFail(g.addInput(InputKind::Input, "seed", g.type(y)));
  at[seed] = fromDoubles(g.type(y), Values(size_t(g.type(y).elements()), 1));
  auto grads = llvm::cantFail(gradients(g, {y}, {in[by]}, {seed}));
  setOutputs(g, {grads[0]});
  return toDoubles(llvm::cantFail(interpret(plainKernels(), g, at, {1, {}}))[0]);
}

void expectSame(Values got, Values want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
        << "element " << i << ": " << got[i] << ", expected " << want[i];
}

TEST(Integers, WrapAndNeverTrap) {
  const double least = -2147483648.0;
  expectSame(run("neg(i32[2])", {{least, 3}}), {least, -3});
  expectSame(run("abs(i32[2])", {{least, -3}}), {least, 3});
  expectSame(run("neg(u8[2])", {{1, 0}}), {255, 0});
  expectSame(run("square(u8[2])", {{16, 3}}), {0, 9});
  expectSame(run("mod(i32[5], i32[5])", {{7, -7, 7, least, 5}, {3, 3, -3, -1, 0}}),
             {1, 2, -2, 0, 0});
  expectSame(run("mod(i32[4], i32[4]) {fmod = true}", {{7, -7, 7, -7}, {3, 3, -3, -3}}),
             {1, -1, 1, -1});
  expectSame(run("mod(u8[2], u8[2])", {{250, 5}, {7, 0}}), {5, 0});
  expectSame(run("shift_left(i32[4], i32[4])", {{1, 1, 1, -1}, {31, 32, -1, 1}}),
             {least, 0, 0, -2});
  expectSame(run("shift_right(i64[3], i64[3])", {{-8, -8, 8}, {1, 64, 64}}), {-4, -1, 0});
  expectSame(run("prod(i32[2])", {{65536, 65536}}), {0});
  expectSame(run("cumprod(u8[3])", {{16, 8, 4}}), {16, 128, 0});
}

TEST(Floats, RemaindersHaveTheirSigns) {
  expectSame(run("mod(f64[4], f64[4])", {{5.5, -5.5, 5.5, -5.5}, {2, 2, -2, -2}}),
             {1.5, 0.5, -0.5, -1.5});
  expectSame(run("mod(f64[2], f64[2]) {fmod = true}", {{5.5, -5.5}, {-2, 2}}), {1.5, -1.5});
  expectSame(run("mod(f64[1], f64[1])", {{1}, {0}}), {kNan});
}

TEST(Floats, NanComesThrough) {
  for (const char *f : {"thresholded_relu", "shrink", "hard_sigmoid", "hard_swish", "elu",
                        "softsign", "mish", "swish", "relu", "round"})
    EXPECT_TRUE(std::isnan(run(std::string(f) + "(f64[1])", {{kNan}})[0])) << f;
  expectSame(run("prelu(f64[2], f64[])", {{kNan, -2}, {0.5}}), {kNan, -1});
  expectSame(run("min(f64[3])", {{1, kNan, 0}}), {kNan});
  expectSame(run("argmax(f64[4])", {{1, kNan, 5, kNan}}), {1});
  expectSame(run("argmin(f64[4]) {last = true}", {{1, kNan, 0, kNan}}), {1});
  expectSame(run("is_nan(f32[2])", {{kNan, 1}}), {1, 0});
  expectSame(run("is_inf(f16[3]) {negative = false}", {{kInf, -kInf, kNan}}), {1, 0, 0});
}

TEST(Floats, Expm1IsExactNearZeroAndFarOff) {
  for (double x : {1e-6, -1e-6, 0.01, -0.3, 0.49, 0.51, -0.51, 3.0, -20.0}) {
    double want = std::expm1(double(float(x)));
    EXPECT_NEAR(run("expm1(f32[1])", {{x}})[0], want, 4e-7 * std::fabs(want)) << x;
  }
}

TEST(Attention, OfARowWithoutKeysIsZero) {
  const char *call = "attention(f64[2, 1], f64[2, 1], f64[2, 1], f64[2, 2]) {scale = 1}";
  auto out = runAll(call, {{1, 0}, {1, 2}, {5, 7}, {-kInf, -kInf, 0, -kInf}});
  expectSame(out[0], {0, 5});
  expectSame(out[1], {-kInf, 0});
  // That row does not contribute to any gradient either.
  const Values mask = {-kInf, -kInf, 0, 0};
  for (size_t by = 0; by < 4; ++by) {
    Values got = gradient(call, {{1, 0}, {1, 1}, {5, 7}, mask}, by);
    const Values want[] = {{0, 0}, {0, 0}, {0.5, 0.5}, {0, 0, -0.5, 0.5}};
    expectSame(got, want[by]);
  }
  // A key that is masked for all queries has no gradient.
  expectSame(gradient(call, {{1, 0}, {1, 2}, {5, 7}, {0, -kInf, 0, -kInf}}, 2), {2, 0});
  expectSame(gradient(call, {{1, 0}, {1, 2}, {5, 7}, {0, -kInf, 0, -kInf}}, 1), {0, 0});
  out = runAll("attention(f64[2, 1], f64[0, 1], f64[0, 3]) {scale = 1}", {{1, 2}, {}, {}});
  expectSame(out[0], Values(6, 0));
  expectSame(out[1], {-kInf, -kInf});
}

TEST(Reductions, OfNothingAreTheIdentity) {
  expectSame(run("max(f64[0, 2]) {axes = [0]}", {{}}), {-kInf, -kInf});
  expectSame(run("min(f64[0, 2]) {axes = [0]}", {{}}), {kInf, kInf});
  expectSame(run("prod(f64[2, 0]) {axes = [1]}", {{}}), {1, 1});
  expectSame(run("max(u8[0])", {{}}), {0});
  expectSame(run("min(i32[0])", {{}}), {2147483647});
  expectSame(run("logsumexp(f64[0, 2]) {axes = [0]}", {{}}), {-kInf, -kInf});
}

TEST(Pools, OfNothingFindNothing) {
  expectSame(run("max_pool(f64[1, 2, 0]) {kernel = [2], pads = [1, 1]}", {{}}), {-kInf, -kInf});
  for (const char *order : {"false", "true"})
    expectSame(run(std::string("max_pool_indices(f64[1, 2, 0, 3]) {kernel = [2, 3], pads = [1, 0, "
                               "1, 0], column_major = ") +
                       order + "}",
                   {{}}),
               {0, 0});
}

TEST(Reductions, LogSumExpOfInfinities) {
  expectSame(run("logsumexp(f64[2, 2]) {axes = [1]}", {{-kInf, -kInf, kInf, 1}}), {-kInf, kInf});
  expectSame(run("logsumexp(f32[2])", {{200, -kInf}}), {200});
  expectSame(run("logsumexp(f64[2])", {{kNan, 1}}), {kNan});
}

TEST(Products, HaveGradientsWhereFactorsAreZero) {
  expectSame(gradient("prod(f64[3])", {{2, 0, 3}}, 0), {0, 6, 0});
  expectSame(gradient("prod(f64[3])", {{0, 0, 3}}, 0), {0, 0, 0});
  // The results are 2, 0, 0. The derivative of their sum by the second factor is 2 (1 + 3).
  expectSame(gradient("cumprod(f64[3])", {{2, 0, 3}}, 0), {1, 8, 0});
  expectSame(gradient("cumprod(f64[3]) {exclusive = true}", {{2, 0, 3}}, 0), {1, 2, 0});
  // Place 0 becomes 2 * 0 * 3.
  const char *scatter = "scatter_elements(f64[2], i64[2], f64[2]) {reduction = mul}";
  expectSame(gradient(scatter, {{2, 5}, {0, 0}, {0, 3}}, 2), {6, 0});
  expectSame(gradient(scatter, {{2, 5}, {0, 0}, {0, 0}}, 2), {0, 0});
  expectSame(gradient(scatter, {{0, 5}, {0, 0}, {4, 3}}, 2), {0, 0});
  expectSame(gradient(scatter, {{0, 5}, {0, 0}, {4, 3}}, 0), {12, 1});
}

TEST(Products, OfOnePlaceTakeNothingFromAnother) {
  const char *scatter = "scatter_elements(f64[3], i64[5], f64[5]) {reduction = mul}";
  expectSame(gradient(scatter, {{kNan, 2, 3}, {1, 0, 1, 2, 5}, {4, 5, kInf, 1e200, kNan}}, 2),
             {kInf, kNan, 8, 3, kNan});
  const char *slices = "scatter_nd(f64[2, 2], i64[3, 2], f64[3]) {reduction = mul}";
  // The index is out of range, although as a flat index it would be a place.
  expectSame(gradient(slices, {{2, 3, 5, 7}, {0, 2, 1, 0, -3, 2}, {4, 6, 8}}, 2), {kNan, 5, kNan});
  expectSame(run("recurrence(f64[4], f64[4], bool[4])",
                 {{1, 2, 3, 4}, {kNan, kInf, kNan, 2}, {0, 0, 1, 0}}),
             {1, kInf, 3, 10});
  expectSame(run("recurrence(f64[4], f64[4], bool[4]) {previous = true, reverse = true}",
                 {{4, 3, 2, 1}, {kNan, 2, kNan, kInf}, {1, 0, 1, 0}}),
             {10, 3, kInf, 1});
}

TEST(Extrema, OfTwoThatTieShareTheGradient) {
  expectSame(gradient("maximum(f64[4], f64[4])", {{1, 2, 3, kNan}, {2, 2, 2, 1}}, 0),
             {0, 0.5, 1, 1});
  expectSame(gradient("maximum(f64[4], f64[4])", {{1, 2, 3, kNan}, {2, 2, 2, 1}}, 1),
             {1, 0.5, 0, 1});
  expectSame(gradient("minimum(f64[3], f64[])", {{1, 2, 3}, {2}}, 0), {1, 0.5, 0});
  expectSame(gradient("minimum(f64[3], f64[])", {{1, 2, 3}, {2}}, 1), {1.5});
  expectSame(gradient("max(f64[2, 3]) {axes = [1], share_ties = true}", {{1, 4, 4, 3, 2, 1}}, 0),
             {0, 0.5, 0.5, 1, 0, 0});
  expectSame(gradient("max(f64[3])", {{1, 4, 4}}, 0), {0, 1, 0});
}

// PyTorch's values and gradients, as its eager mode gives them.
TEST(SpecialNumbers, HaveTheGradientOfPyTorch) {
  const Values x = {kNan, kInf, -kInf, 0, 1.5, -1.5};
  const double scale = 1.0507009873554805, alpha = 1.6732632423543772;
  expectSame(run("sign(f64[6])", {x}), {0, 1, -1, 0, 1, -1});
  expectSame(gradient("abs(f64[6])", {x}, 0), {0, 1, -1, 0, 1, -1});
  expectSame(gradient("relu(f64[6])", {x}, 0), {1, 1, 0, 0, 1, 0});
  expectSame(run("relu_grad(f64[2], bool[2])", {{3, 3}, run("is_positive(f64[2])", {{kNan, 0}})}),
             {3, 0});
  expectSame(gradient("elu(f64[3])", {{kNan, kInf, -kInf}}, 0), {1, 1, 0});
  expectSame(gradient("elu(f64[3]) {alpha = 1.6732632423543772, scale = 1.0507009873554805}",
                      {{kNan, kInf, 0}}, 0),
             {scale, scale, scale * alpha});
  expectSame(gradient("leaky_relu(f64[6]) {alpha = 0.25}", {x}, 0), {0.25, 1, 0.25, 0.25, 1, 0.25});
  expectSame(gradient("clamp(f64[6]) {min = -1, max = 1}", {x}, 0), {0, 0, 0, 1, 0, 0});
  expectSame(gradient("clamp(f64[6]) {min = 0.5}", {x}, 0), {0, 1, 0, 0, 1, 0});
  expectSame(gradient("clamp(f64[3]) {max = 0.5}", {{kNan, kInf, 0}}, 0), {0, 0, 1});
  expectSame(gradient("hard_swish(f64[4])", {{kNan, kInf, -kInf, 0}}, 0), {1, 1, 0, 0.5});
  for (const char *f : {"silu", "gelu", "mish", "softsign"})
    expectSame(gradient(std::string(f) + "(f64[3])", {{kNan, kInf, -kInf}}, 0), {kNan, kNan, kNan});
}

TEST(SpecialNumbers, OfReductionsAreThoseOfPyTorch) {
  expectSame(gradient("max(f64[2, 3]) {axes = [1], share_ties = true}",
                      {{1, kNan, kNan, kInf, kInf, 1}}, 0),
             {kNan, kNan, kNan, 0.5, 0.5, 0});
  expectSame(gradient("max(f64[2, 3]) {axes = [1]}", {{1, kNan, kNan, -kInf, -kInf, -kInf}}, 0),
             {0, 1, 0, 1, 0, 0});
  expectSame(gradient("max_pool(f64[1, 1, 4]) {kernel = [4]}", {{1, kNan, kNan, kInf}}, 0),
             {0, 0, 1, 0});
  expectSame(gradient("maximum(f64[2], f64[2])", {{kNan, kInf}, {1, kInf}}, 0), {1, 0.5});
  expectSame(gradient("maximum(f64[2], f64[2])", {{kNan, kInf}, {1, kInf}}, 1), {1, 0.5});
  const Values all = {kNan, kNan, kNan};
  for (const char *type : {"f64", "f32"})
    for (const char *f : {"softmax", "log_softmax"})
      for (const Values &x :
           {Values{kInf, 1, 2}, Values{-kInf, -kInf, -kInf}, Values{1, kNan, 2}}) {
        const std::string call = llvm::formatv("{0}({1}[3])", f, type).str();
        expectSame(run(call, {x}), all);
        expectSame(gradient(call, {x}, 0), all);
      }
  for (double other : {1.0, -kInf}) {
    const std::vector<Values> operands = {{kInf, other, 2}, {1}};
    expectSame(run("cross_entropy(f64[1, 3], i64[1])", operands), {kNan});
    expectSame(gradient("cross_entropy(f64[1, 3], i64[1])", operands, 0), all);
  }
  expectSame(run("cross_entropy(f64[1, 3], i64[1])", {{0, -kInf, 2}, {1}}), {kInf});
  expectSame(run("softmax(f64[3]) {zero_if_masked = true}", {{kInf, 1, 2}}), all);
}

TEST(Powers, HaveGradientsAtZero) {
  expectSame(gradient("pow(f64[2], f64[2])", {{0, 0}, {0, 2}}, 0), {0, 0});
  expectSame(gradient("pow(f64[2], f64[2])", {{0, 2}, {3, 1}}, 1), {0, 2 * std::log(2.0)});
}

TEST(Scatters, LeaveOutWhatIsOutOfRange) {
  expectSame(
      run("scatter_elements(f64[3], i64[4], f64[4])", {{1, 2, 3}, {3, -4, -1, 0}, {7, 8, 9, 5}}),
      {5, 2, 9});
  expectSame(
      run("scatter_nd(f64[2, 2], i32[2, 1], f64[2, 2])", {{1, 2, 3, 4}, {9, -1}, {5, 6, 7, 8}}),
      {1, 2, 7, 8});
  expectSame(run("gather_elements(f64[2], i64[3])", {{1, 2}, {2, -1, -3}}), {kNan, 2, kNan});
  expectSame(run("gather_nd(i64[2, 2], i64[2, 2])", {{1, 2, 3, 4}, {1, 2, 1, -2}}), {0, 3});
  expectSame(run("gather_nd(f16[2], i64[1, 1])", {{1, 2}, {5}}), {kNan});
}

TEST(Scatters, OfSeveralTheLastIsThere) {
  const char *text = "scatter_nd(f64[2], i64[3, 1], f64[3])";
  expectSame(run(text, {{1, 2}, {0, 0, 0}, {5, 6, 7}}), {7, 2});
  expectSame(gradient(text, {{1, 2}, {0, 0, 0}, {5, 6, 7}}, 2), {0, 0, 1});
  expectSame(gradient(text, {{1, 2}, {0, 0, 0}, {5, 6, 7}}, 0), {0, 1});
}

TEST(TopK, OrdersTiesAndNan) {
  auto largest = runAll("top_k(f64[5]) {k = 4}", {{2, kNan, 3, 2, 3}});
  expectSame(largest[0], {kNan, 3, 3, 2});
  expectSame(largest[1], {1, 2, 4, 0});
  auto smallest = runAll("top_k(f64[4]) {k = 4, largest = false}", {{2, kNan, 1, 2}});
  expectSame(smallest[0], {1, 2, 2, kNan});
  expectSame(smallest[1], {2, 0, 3, 1});
}

// Without classes, the count of labels would divide by zero.
TEST(Losses, WithLabelsHaveClasses) {
  for (const char *text :
       {"cross_entropy(f64[2, 0], i64[2])", "cross_entropy_grad(f64[], f64[2, 0], i64[2], f64[2])",
        "nll(f64[2, 0, 3], i64[2, 3])", "nll_grad(f64[], i64[2]) {classes = 0, type = f64}"}) {
    CallText call = llvm::cantFail(parseCall(text));
    auto types = inferTypes(*call.op, call.attrs, call.operands);
    EXPECT_FALSE(bool(types)) << text;
    if (!types) {
      EXPECT_NE(llvm::toString(types.takeError()).find("expects a class"), std::string::npos);
    }
  }
  EXPECT_TRUE(run("nll(f64[0, 0], i64[0]) {reduction = none}", {{}, {}}).empty());
}

} // namespace
} // namespace isthmus
