// Tests what the sweep over the op table cannot: values that were computed by hand, limits of
// types, and distributions.

#include "ir/half.h"
#include "kernels/element/dtype.h"
#include "kernels/element/functions.h"
#include "kernels/element/philox.h"
#include "kernels/plain/register.h"
#include "tests/testing/example.h"
#include "tests/testing/interpret.h"
#include <bit>
#include <cmath>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

using element::BF16;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// The first result of a call on the given values, as doubles. Compare with `same`, as values may be
// NaN.
std::vector<double> run(llvm::StringRef text, std::vector<std::vector<double>> values,
                        RandomKey key = {}) {
  KernelTable kernels;
  registerPlainKernels(kernels);
  auto e = parseExample(text);
  std::vector<Tensor> operands;
  for (size_t i = 0; i < values.size(); ++i)
    operands.push_back(fromDoubles(e->call.operands[i], values[i]));
  return toDoubles(llvm::cantFail(interpretCall(kernels, e->call, operands, {1, key}))[0]);
}

void expectSame(std::vector<double> got, std::vector<double> want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i])))
        << "element " << i << ": " << got[i] << ", expected " << want[i];
}

TEST(Integers, NeverTrap) {
  const double least = -2147483648.0;
  expectSame(run("div(i32[4], i32[4])", {{7, -7, least, 5}, {2, 2, -1, 0}}), {3, -3, least, 0});
  expectSame(run("add(i32[1], i32[1])", {{2147483647}, {1}}), {least});
  expectSame(run("mul(i64[1], i64[])", {{3}, {-4}}), {-12});
  expectSame(run("pow(i64[5], i64[5])", {{2, -3, 0, -1, 5}, {10, 3, 0, -3, -1}}),
             {1024, -27, 1, -1, 0});
  expectSame(run("affine(i64[2]) {scale = -2.0, shift = 3.0}", {{5, -1}}), {-7, 5});
  expectSame(run("affine(i32[2]) {scale = 0.5}", {{5, -5}}), {2, -2});
  expectSame(run("clamp(i32[3]) {min = -1.5, max = 2.5}", {{-7, 0, 7}}), {-1, 0, 2});
}

TEST(Cast, EveryHalfIsItself) { // compared with the compiler's conversions
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    element::F16 h;
    h.bits = static_cast<uint16_t>(bits);
    float want = static_cast<float>(std::bit_cast<_Float16>(h.bits)), got = h;
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got) && std::isnan(float(element::F16(got)))) << bits;
      continue;
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << bits;
    // The number, its neighbours and the midpoints between them must be rounded as the compiler
    // rounds them.
    for (float near :
         {got, got * 1.0002f, got * 0.9998f, got + 0x1p-25f, got - 0x1p-25f, got * 1.00048828125f})
      EXPECT_EQ(element::F16(near).bits, std::bit_cast<uint16_t>(static_cast<_Float16>(near)))
          << bits << " " << near;
  }
}

// The kernels' conversions, which have no branches, must agree with those of files.
TEST(Cast, SixteenBitsAreConvertedAlikeEverywhere) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    uint16_t word = static_cast<uint16_t>(bits);
    element::F16 h;
    BF16 b;
    h.bits = b.bits = word;
    float f16 = h, bf16 = b;
    if (!std::isnan(f16)) {
      EXPECT_EQ(bitsOfFloat(f16ToFloat(word)), bitsOfFloat(f16)) << bits;
    }
    EXPECT_EQ(bitsOfFloat(bf16ToFloat(word)), bitsOfFloat(bf16)) << bits;
    for (float near : {f16, bf16, f16 * 1.0002f, f16 + 0x1p-25f, f16 * 1.00048828125f,
                       bf16 * 1.001f, bf16 * 1.00390625f})
      if (!std::isnan(near)) {
        EXPECT_EQ(floatToF16(near), element::F16(near).bits) << near;
        EXPECT_EQ(floatToBF16(near), BF16(near).bits) << near;
      }
  }
}

TEST(Cast, RoundsAndSaturates) {
  expectSame(run("cast(f64[5]) {type = i32}", {{1.9, -1.9, 1e20, -kInf, kNan}}),
             {1, -1, 2147483647, -2147483648.0, 0});
  expectSame(run("cast(f32[3]) {type = u8}", {{255.5, -3, 256}}), {255, 0, 255});
  expectSame(run("cast(f32[4]) {type = bool}", {{0, -0.0, 0.5, kNan}}), {0, 0, 1, 1});
  expectSame(run("cast(bool[2]) {type = f32}", {{1, 0}}), {1, 0});
  // Midway between the neighbours 1 and 1 + 2^-7 of bf16, numbers are rounded to even; above, up.
  expectSame(
      run("cast(f64[3]) {type = bf16}", {{1 + 0x1p-8, 1 + 0x1p-7 + 0x1p-8, 1 + 0x1p-8 + 0x1p-20}}),
      {1, 1 + 0x1p-6, 1 + 0x1p-7});
  expectSame(run("cast(f32[3]) {type = bf16}", {{kNan, kInf, 3.4e38}}), {kNan, kInf, kInf});
  expectSame(run("cast(f32[3]) {type = f16}", {{65504, 65536, 0x1p-24}}), {65504, kInf, 0x1p-24});
}

TEST(Elementwise, KeepsNaN) {
  expectSame(run("maximum(f32[3], f32[3])", {{kNan, 1, 2}, {1, kNan, 3}}), {kNan, kNan, 3});
  expectSame(run("minimum(f32[3], f32[3])", {{kNan, 1, 2}, {1, kNan, 3}}), {kNan, kNan, 2});
  expectSame(run("relu(f32[3])", {{kNan, -1, 2}}), {kNan, 0, 2});
  expectSame(run("clamp(f32[3]) {min = 0.0, max = 1.0}", {{kNan, -kInf, kInf}}), {kNan, 0, 1});
  expectSame(run("max(f32[2, 2]) {axes = [1]}", {{1, kNan, -kInf, -kInf}}), {kNan, -kInf});
}

TEST(Shape, Slices) {
  expectSame(run("slice(i32[6]) {starts = [5], limits = [-1], steps = [-2]}", {{0, 1, 2, 3, 4, 5}}),
             {5, 3, 1});
  expectSame(run("slice(i32[2, 3]) {starts = [1, 2], limits = [-1, 0], steps = [-1, -1]}",
                 {{0, 1, 2, 3, 4, 5}}),
             {5, 4, 2, 1});
  expectSame(run("slice(i32[5]) {starts = [1], limits = [5], steps = [3]}", {{0, 1, 2, 3, 4}}),
             {1, 4});
}

TEST(Shape, Pads) {
  expectSame(run("pad(i32[3]) {low = [2], high = [1], mode = reflect}", {{1, 2, 3}}),
             {3, 2, 1, 2, 3, 2});
  expectSame(run("pad(i32[3]) {low = [2], high = [1], mode = edge}", {{1, 2, 3}}),
             {1, 1, 1, 2, 3, 3});
  expectSame(run("pad(i32[1, 2]) {low = [1, 0], high = [0, 1], value = 7.0}", {{1, 2}}),
             {7, 7, 7, 1, 2, 7});
}

TEST(Shape, GathersFromTheEndAndOutOfRange) {
  expectSame(run("gather(f32[3], i64[5])", {{1, 2, 3}, {-1, 0, 3, -3, -4}}), {3, 1, kNan, 1, kNan});
  expectSame(run("gather(i32[3], i32[2])", {{1, 2, 3}, {5, 1}}), {0, 2});
  expectSame(run("scatter_rows(i64[5], f32[5]) {size = 3}", {{0, -1, 0, 3, -4}, {1, 2, 3, 4, 5}}),
             {4, 0, 2});
}

TEST(Shape, Triangles) {
  expectSame(run("trilu(i32[2, 3])", {{1, 2, 3, 4, 5, 6}}), {1, 2, 3, 0, 5, 6});
  expectSame(run("trilu(i32[2, 3]) {upper = false}", {{1, 2, 3, 4, 5, 6}}), {1, 0, 0, 4, 5, 0});
  expectSame(run("trilu(i32[2, 2]) {k = 9223372036854775807}", {{1, 2, 3, 4}}), {0, 0, 0, 0});
  expectSame(run("trilu(i32[2, 2]) {k = -9223372036854775807}", {{1, 2, 3, 4}}), {1, 2, 3, 4});
}

TEST(Reduce, FirstMaximumTakesTheGradient) {
  expectSame(run("max_grad(f32[2], f32[2, 3], f32[2]) {axes = [1]}",
                 {{5, 6}, {1, 3, 3, kNan, 2, kNan}, {3, kNan}}),
             {0, 5, 0, 6, 0, 0});
}

TEST(Reduce, MaximaShareTheGradient) {
  expectSame(run("max_grad(f32[2], f32[2, 3], f32[2]) {axes = [1], share_ties = true}",
                 {{5, 6}, {1, 3, 3, kNan, 2, kNan}, {3, kNan}}),
             {0, 2.5, 2.5, kNan, kNan, kNan}); // as PyTorch's amax
  expectSame(run("min_grad(f32[2], f32[3, 2], f32[2]) {axes = [0], share_ties = true}",
                 {{6, 5}, {1, 2, 1, 0, 1, 2}, {1, 0}}),
             {2, 0, 2, 5, 2, 0});
  expectSame(run("max_grad(f32[2], f32[2, 2, 2], f32[2]) {axes = [0, 2], share_ties = true}",
                 {{6, 8}, {7, 7, 1, 2, 7, 0, 2, 1}, {7, 2}}),
             {2, 2, 0, 4, 2, 0, 4, 0});
  expectSame(run("max_grad(f32[1], f32[4], f32[1]) {keepdims = true, share_ties = true}",
                 {{8}, {2, 3, 3, 3.5}, {3}}),
             {0, 4, 4, 0});
}

TEST(Reduce, SumsOfNothing) {
  expectSame(run("sum(f32[0, 2]) {axes = [0]}", {{}}), {0, 0});
  expectSame(run("matmul(f32[1, 0], f32[0, 2])", {{}, {}}), {0, 0});
}

// Compares our float functions with the library's double functions.
TEST(Math, FloatFunctionsAreAccurate) {
  auto worst = [](auto ours, auto exact, double low, double high, double floor) {
    double most = 0;
    for (int i = 0; i <= 400000; ++i) {
      float x = float(low + (high - low) * i / 400000);
      double want = exact(double(x)), size = std::max(std::fabs(want), floor);
      most = std::max(most, std::fabs(double(ours(x)) - want) / size);
    }
    return most / 0x1p-24; // in half units of the last place
  };
  constexpr double kNormal = 0x1p-126;
  EXPECT_LT(worst([](float x) { return element::expOf(x); }, [](double x) { return std::exp(x); },
                  -87, 88.7, kNormal),
            4);
  EXPECT_LT(worst([](float x) { return element::tanhOf(x); }, [](double x) { return std::tanh(x); },
                  -10, 10, kNormal),
            8);
  EXPECT_LT(worst([](float x) { return element::sigmoidOf(x); },
                  [](double x) { return 1 / (1 + std::exp(-x)); }, -80, 80, kNormal),
            8);
  EXPECT_LT(worst([](float x) { return element::softplusOf(x); },
                  [](double x) { return std::log1p(std::exp(x)); }, -80, 80, kNormal),
            8);
  EXPECT_LT(worst([](float x) { return element::logOf(x); }, [](double x) { return std::log(x); },
                  1e-3, 5, 0.01),
            8);
  EXPECT_LT(worst([](float x) { return element::logOf(x); }, [](double x) { return std::log(x); },
                  1, 1e30, 0.01),
            4);
  EXPECT_LT(worst([](float x) { return element::erfOf(x); }, [](double x) { return std::erf(x); },
                  -5, 5, kNormal),
            8);
  EXPECT_EQ(element::logOf(0.0f), -INFINITY);
  EXPECT_EQ(element::logOf(INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(element::logOf(-1.0f)) && std::isnan(element::logOf(NAN)) &&
              std::isnan(element::erfOf(NAN)));
  EXPECT_NEAR(element::logOf(0x1p-140f), -140 * M_LN2, 1e-5); // a subnormal number
  EXPECT_EQ(element::expOf(1000.0f), INFINITY);
  EXPECT_EQ(element::expOf(-1000.0f), 0);
  EXPECT_NEAR(element::expOf(-95.0f), std::exp(-95.0), 0x1p-149); // a subnormal number
  EXPECT_TRUE(std::isnan(element::expOf(NAN)) && std::isnan(element::tanhOf(NAN)) &&
              std::isnan(element::softplusOf(NAN)));
  EXPECT_EQ(element::tanhOf(-INFINITY), -1);
}

// The test vectors that the authors of Philox published.
TEST(Philox, KnownAnswers) {
  auto words = [](uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
    PhiloxKey key = {{k0, k1}, {c2, c3}};
    uint32_t w[4][1];
    philoxBlocks(key, uint64_t(c1) << 32 | c0, w);
    return std::vector<uint32_t>{w[0][0], w[1][0], w[2][0], w[3][0]};
  };
  EXPECT_EQ(words(0, 0, 0, 0, 0, 0),
            (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~0u, ~0u, ~0u, ~0u, ~0u, ~0u),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, ElementaryFunctions) {
  for (int i = 1; i < 100000; ++i) {
    double u = i / 100000.0, c, s;
    EXPECT_NEAR(philoxLog(u), std::log(u), 4e-16 * (1 + std::fabs(std::log(u))));
    philoxCosSin(u, &c, &s);
    EXPECT_NEAR(c, std::cos(2 * M_PI * u), 1e-15);
    EXPECT_NEAR(s, std::sin(2 * M_PI * u), 1e-15);
  }
  EXPECT_NEAR(philoxLog(0x1p-33), -33 * M_LN2, 1e-14);
}

struct Moments {
  double mean, variance, least, most;
};
Moments momentsOf(const std::vector<double> &x) {
  Moments m = {0, 0, x[0], x[0]};
  for (double v : x) {
    m.mean += v / double(x.size());
    m.least = std::min(m.least, v);
    m.most = std::max(m.most, v);
  }
  for (double v : x)
    m.variance += (v - m.mean) * (v - m.mean) / double(x.size());
  return m;
}

// The bounds are five standard errors: of n = 100000 draws of standard deviation 1, 0.016.
TEST(Random, Distributions) {
  for (const char *type : {"f32", "f64", "bf16", "f16"}) {
    SCOPED_TRACE(type);
    Moments u = momentsOf(
        run(llvm::formatv(
                "uniform() {{dims = [100000], type = {0}, low = 2.0, high = 3.0, stream = 1}", type)
                .str(),
            {}));
    EXPECT_NEAR(u.mean, 2.5, 0.0046 + (type[0] == 'b' ? 0.004 : 0));
    EXPECT_NEAR(u.variance, 1 / 12.0, 0.002);
    EXPECT_GE(u.least, 2);
    EXPECT_LT(u.most, 3);
    Moments n = momentsOf(
        run(llvm::formatv(
                "normal() {{dims = [100000], type = {0}, mean = 1.0, std = 1.0, stream = 1}", type)
                .str(),
            {}));
    EXPECT_NEAR(n.mean, 1, 0.016);
    EXPECT_NEAR(n.variance, 1, 0.023);
    EXPECT_GT(n.most, 4.5);
  }
  std::vector<double> ones(100000, 1);
  size_t kept = 0;
  for (double v : run("dropout(f32[100000]) {ratio = 0.2, stream = 1}", {ones})) {
    EXPECT_TRUE(v == 0 || v == 1.25);
    kept += v != 0;
  }
  EXPECT_NEAR(double(kept), 80000, 5 * 126.5);
}

TEST(Random, KeysMatterAndNothingElse) {
  auto draws = [](const char *text, RandomKey key) { return run(text, {}, key); };
  auto a = draws("uniform() {dims = [1000], stream = 1}", {1, 1});
  EXPECT_EQ(a, draws("uniform() {dims = [1000], stream = 1}", {1, 1}));
  EXPECT_NE(a, draws("uniform() {dims = [1000], stream = 2}", {1, 1}));
  EXPECT_NE(a, draws("uniform() {dims = [1000], stream = 1}", {2, 1}));
  EXPECT_NE(a, draws("uniform() {dims = [1000], stream = 1}", {1, 2}));
  // A longer tensor starts with the same draws.
  auto longer = draws("uniform() {dims = [3, 1001], stream = 1}", {1, 1});
  longer.resize(1000);
  EXPECT_EQ(a, longer);
}

} // namespace
} // namespace isthmus
