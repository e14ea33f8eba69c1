// Pools, convolutions, products and inverses, for shapes that are larger than the op table's
// examples.

#include "ir/ops/channels.h"
#include "ir/ops/window.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/products.h"
#include "tests/kernels/compare.h"

namespace isthmus::testing {
namespace {

// Checks a pool and its gradients, with the result types that the window determines.
void checkPool(const std::string &image, const std::string &attrs, const std::string &more) {
  std::string x = "f64[" + image + "]", window = ") {" + attrs;
  auto forward = parseExample("max_pool(" + x + window + "}");
  std::string y = forward->call.results[0].str();
  std::string sizes;
  for (int64_t d : spatial(forward->call.operands[0]))
    sizes += (sizes.empty() ? "" : ", ") + std::to_string(d);
  expectLikePlain("max_pool(" + x + window + "}");
  expectLikePlain("max_pool_indices(" + x + window + "}");
  expectLikePlain("max_pool_indices(" + x + window + ", column_major = true}");
  expectLikePlain("max_pool_grad(" + y + ", " + x + window + "}");
  expectLikePlain("max_pool_take(" + x + ", " + x + window + "}");
  expectLikePlain("avg_pool(" + x + window + more + "}");
  expectLikePlain("avg_pool_grad(" + y + window + more + ", dims = [" + sizes + "]}");
}

TEST(GridPool, Windows) {
  for (const char *more : {"", ", count_include_pad = false", ", divisor = 5"}) {
    checkPool("2, 3, 300", "kernel = [5], strides = [2], pads = [1, 3]", more);
    checkPool("3, 7, 40, 41", "kernel = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]", more);
    checkPool("2, 5, 30, 20", "kernel = [2, 4], strides = [3, 1], dilations = [3, 2]", more);
    checkPool("2, 2, 9, 30, 8",
              "kernel = [3, 2, 3], strides = [1, 2, 3], pads = [1, 0, 2, 1, 1, 0]", more);
    checkPool("2, 3, 13, 11", "kernel = [3, 3], strides = [2, 2], ceil_mode = true", more);
    checkPool("2, 3, 40, 33", "kernel = [40, 33]", more);                 // by teams
    checkPool("1, 2, 20, 23", "kernel = [9, 8], strides = [2, 3]", more); // by teams
  }
}

TEST(GridPool, TiesAndNaN) {
  for (std::string x : {"f32[2, 3, 40, 33]", "i32[2, 3, 40, 33]", "u8[1, 2, 40, 33]"})
    for (const char *kernel : {"[3, 2]", "[20, 30]"})
      for (const char *op : {"max_pool", "max_pool_indices"}) {
        auto e = parseExample(op + ("(" + x) + ") {kernel = " + kernel + ", strides = [2, 2]}");
        std::vector<double> v = toDoubles(drawOperands(*e)[0]);
        for (size_t i = 0; i < v.size(); ++i)
          v[i] = x[0] == 'f' ? i % 97 == 5 ? NAN : std::round(2 * v[i]) : double(i * 7 % 3);
        expectWhatPlainGives(e->call, {fromDoubles(e->call.operands[0], v)});
      }
}

TEST(GridPool, WindowsOfPaddingAlone) {
  expectLikePlain("max_pool(f64[1, 2, 4]) {kernel = [2], dilations = [3], pads = [3, 3]}");
  expectLikePlain("max_pool_indices(f64[1, 2, 1]) {kernel = [2], dilations = [2], pads = [2, 2]}");
  expectLikePlain("max_pool_indices(f64[1, 2, 0]) {kernel = [2], pads = [1, 1]}");
  expectLikePlain(
      "max_pool_indices(f64[1, 2, 0]) {kernel = [2], pads = [1, 1], column_major = true}");
  expectLikePlain("max_pool_grad(f64[1, 2, 3], f64[1, 2, 1]) {kernel = [2], dilations = [2], pads "
                  "= [2, 2]}");
  expectLikePlain("max_pool(f64[0, 2, 4]) {kernel = [2]}");
}

void checkConv(const std::string &x, const std::string &w, const std::string &attrs) {
  std::string rest = attrs.empty() ? "" : ", " + attrs;
  auto conv = parseExample("conv(f64[" + x + "], f64[" + w + "]) {" + attrs + "}");
  std::string y = conv->call.results[0].str();
  auto list = [](llvm::ArrayRef<int64_t> dims) {
    std::string s;
    for (int64_t d : dims)
      s += (s.empty() ? "" : ", ") + std::to_string(d);
    return "[" + s + "]";
  };
  OpCall first = channelsFirst(conv->call);
  std::string in = list(spatial(first.operands[0])), kernel = list(spatial(first.operands[1]));
  std::string out = "f64[" + std::to_string(first.results[0].dims[1]) + "]",
              channels = "f64[" + std::to_string(first.operands[0].dims[1]) + "]";
  std::string xType = "f64[" + x + "]", wType = "f64[" + w + "]";
  expectLikePlain("conv(" + xType + ", " + wType + ") {" + attrs + "}");
  expectLikePlain("conv(" + xType + ", " + wType + ", " + out + ") {" + attrs + "}");
  expectLikePlain("conv_transpose(" + y + ", " + wType + ") {dims = " + in + rest + "}");
  expectLikePlain("conv_transpose(" + y + ", " + wType + ", " + channels + ") {dims = " + in +
                  rest + "}");
  expectLikePlain("conv_weight_grad(" + y + ", " + xType + ") {kernel = " + kernel + rest + "}");
}

TEST(GridConv, Windows) {
  checkConv("2, 3, 100", "5, 3, 7", "strides = [3], pads = [2, 5], dilations = [2]");
  checkConv("2, 20, 9, 11", "8, 20, 3, 3", "pads = [1, 1, 1, 1]");
  checkConv("2, 20, 9, 11", "8, 20, 3, 3", "strides = [2, 2], pads = [1, 1, 1, 1]");
  checkConv("2, 12, 9, 8", "18, 2, 2, 3", "groups = 6, dilations = [3, 1], pads = [0, 2, 3, 1]");
  checkConv("2, 7, 9, 8", "14, 1, 3, 3", "groups = 7, strides = [1, 3]");
  checkConv("2, 40, 9, 8", "33, 40, 1, 1", "");
  checkConv("2, 40, 9, 8", "33, 40, 1, 1", "strides = [2, 3]");
  checkConv("2, 3, 6, 7, 8", "4, 3, 3, 2, 3",
            "strides = [2, 1, 3], pads = [2, 0, 1, 1, 1, 2], dilations = [1, 2, 1]");
  checkConv("1, 300, 3, 3", "20, 300, 3, 3", "pads = [1, 1, 1, 1]");
  checkConv("0, 3, 8, 8", "4, 3, 3, 3", "");
}

TEST(GridConv, ChannelsLast) {
  auto check = [](const std::string &x, const std::string &w, const std::string &attrs) {
    checkConv(x, w, "channels_last = true" + attrs);
  };
  check("2, 50, 3", "5, 7, 3", ", strides = [3], pads = [2, 5], dilations = [2]");
  check("2, 7, 8, 20", "8, 3, 3, 20", ", strides = [2, 2], pads = [1, 1, 1, 1]");
  check("2, 9, 8, 12", "18, 2, 3, 2", ", groups = 6, dilations = [3, 1], pads = [0, 2, 3, 1]");
  check("2, 9, 8, 7", "14, 3, 3, 1", ", groups = 7, strides = [1, 3]");
  check("2, 6, 5, 40", "33, 1, 1, 40", "");
  check("2, 6, 7, 8, 3", "4, 3, 2, 3, 3",
        ", strides = [2, 1, 3], pads = [2, 0, 1, 1, 1, 2], dilations = [1, 2, 1]");
  check("0, 8, 8, 3", "4, 3, 3, 3", "");
}

TEST(GridMatmul, Shapes) {
  for (const char *call :
       {"matmul(f64[70, 300], f64[300, 65])", "matmul(f64[1, 300], f64[300, 65])",
        "matmul(f64[70, 30], f64[65, 30]) {transpose_b = true}",
        "matmul(f64[5, 30, 7], f64[1, 9, 30]) {transpose_a = true, transpose_b = true}",
        "matmul(f64[3, 1, 4, 9, 8], f64[2, 4, 8, 5])", "matmul(f64[2, 3, 2, 6, 5, 4], f64[4, 6])",
        "matmul(f64[6, 5], f64[2, 1, 3, 5, 2])", "matmul(f64[0, 5], f64[5, 3])",
        "matmul(f64[3, 0, 5, 4], f64[4, 3])", "matmul(f64[3, 5, 0], f64[3, 0, 4])",
        "matmul(f64[70, 300], f64[300, 65], f64[65])", "matmul(f64[1, 300], f64[300, 65], f64[65])",
        "matmul(f64[3, 1, 4, 9, 8], f64[2, 4, 8, 5], f64[5])",
        "matmul(f64[5, 30, 7], f64[1, 9, 30], f64[9]) {transpose_a = true, transpose_b = true}",
        "matmul(f64[3, 5, 0], f64[3, 0, 4], f64[4])", "matmul(f64[5, 3], f64[3, 0], f64[0])"})
    expectLikePlain(call);
}

// If a library's product adds no bias, the result is first filled with the bias.
template <typename T> void checkRepeatedRow(std::vector<T> row) {
  const size_t rows = 300;
  std::vector<T> y(rows * row.size() + 1, T(99));
  cuda::repeatRow({}, row.data(), int64_t(row.size()), sizeof(T), rows, y.data());
  for (size_t i = 0; i + 1 < y.size(); ++i)
    ASSERT_EQ(y[i], row[i % row.size()]) << i;
  EXPECT_EQ(y.back(), T(99));
}
TEST(GridMatmul, RepeatsARow) {
  checkRepeatedRow<double>({1.5, -2, 3});
  checkRepeatedRow<float>({4, 5});
  checkRepeatedRow<uint16_t>({6, 7, 8, 9, 10});
}

// Adds a bias to a library's convolution, in packs that hold several channels or that end early.
void checkBias(DType type, int64_t images, int64_t channels, int64_t plane, bool last) {
  Type yType(type, {images, last ? plane : channels, last ? channels : plane});
  Type biasType(type, {channels});
  Tensor y = draw(yType, 1), bias = draw(biasType, 2);
  std::vector<double> want = toDoubles(y), b = toDoubles(bias);
  for (size_t i = 0; i < want.size(); ++i)
    want[i] += b[i / size_t(last ? 1 : plane) % size_t(channels)];
  Tensor got = Tensor::make(yType, [&](char *to) {
    std::memcpy(to, y.data, size_t(y.bytes()));
    cuda::addBias({}, type, bias.data, channels, last ? 1 : plane, yType.elements(), to);
  });
  EXPECT_TRUE(sameBits(got, fromDoubles(yType, want))) << yType.str();
}
TEST(GridConv, AddsABias) {
  for (DType type : {DType::F64, DType::BF16, DType::F16})
    for (bool last : {false, true}) {
      checkBias(type, 3, 5, 7, last);
      checkBias(type, 2, 64, 100, last);
      checkBias(type, 1, 1, 9, last);
      checkBias(type, 300, 3, 1, last);
      checkBias(type, 0, 3, 4, last);
    }
}

// Matrices that need pivots other than the first, singular ones, many, and large ones.
TEST(GridLinalg, Matrices) {
  for (std::string type : {"f64[40, 40]", "f64[3000, 2, 2]", "f64[2, 3, 17, 17]", "f64[5, 1, 1]",
                           "f64[0, 3, 3]", "f32[100, 100]", "f64[2, 0, 0]"})
    for (const char *op : {"det", "logabsdet", "inverse"}) {
      SCOPED_TRACE(op + type);
      auto e = parseExample(std::string(op) + "(" + type + ")");
      std::vector<double> x = toDoubles(drawOperands(*e)[0]);
      int64_t n = e->call.operands[0].dims.back();
      for (size_t i = 0; i < x.size(); ++i) { // small diagonals; matrix 1 is singular
        int64_t matrix = int64_t(i) / (n * n), at = int64_t(i) % (n * n);
        if (at / n == at % n)
          x[i] *= 0.01;
        if (matrix == 1 && at / n == n - 1)
          x[i] = 0;
        if (matrix == 3 && at == 0)
          x[i] = NAN;
      }
      std::vector<Tensor> operands = {fromDoubles(e->call.operands[0], x)};
      auto want = llvm::cantFail(interpretCall(plainKernels(), e->call, operands, kOptions));
      auto got = llvm::cantFail(interpretCall(gridKernels(), e->call, operands, kOptions));
      EXPECT_TRUE(sameBits(got[0], want[0])); // both kernels use the same arithmetic
    }
}

} // namespace
} // namespace isthmus::testing
