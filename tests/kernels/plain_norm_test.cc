// Compares the gradients of plain normalisations, softmax and losses with central differences, and
// both orders of channels. tests/ops:definitions_test compares all of them with their formulas.

#include "kernels/plain/register.h"
#include "tests/kernels/call.h"

namespace isthmus::testing {
namespace {

const KernelTable &plain() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerPlainNorm(*t);
    registerPlainSoftmax(*t);
    registerPlainLoss(*t);
    return t;
  }();
  return *table;
}

// Compares the derivative of dot(result 0, g) by operand `i` of `forward` with result `k` of
// `backward`, which has already run.
void expectGradient(Call &forward, size_t i, llvm::ArrayRef<double> g, const Call &backward,
                    size_t k) {
  auto value = [&] {
    forward.run(plain());
    double sum = 0;
    for (size_t j = 0; j < g.size(); ++j)
      sum += g[j] * forward.output(0, int64_t(j));
    return sum;
  };
  const double step = 1e-5;
  double *x = forward.in[i].as<double>();
  for (int64_t e = 0; e < forward.call.operands[i].elements(); ++e) {
    double at = x[e];
    x[e] = at + step;
    double up = value();
    x[e] = at - step;
    double down = value();
    x[e] = at;
    EXPECT_NEAR(backward.output(k, e), (up - down) / (2 * step), 1e-7)
        << backward.text() << " element " << e;
  }
}

std::vector<double> values(const Call &c, size_t operand) {
  std::vector<double> v;
  for (int64_t e = 0; e < c.call.operands[operand].elements(); ++e)
    v.push_back(c.input(operand, e));
  return v;
}

void give(Call &to, size_t operand, const Guarded &from) {
  ASSERT_EQ(to.in[operand].bytes(), from.bytes());
  std::memcpy(to.in[operand].data(), from.data(), size_t(from.bytes()));
}

// With channels last, sums are in another order.
void expectLikeWithChannelsLast(const Call &call) {
  auto last = withChannelsLast(call);
  last->run(plain());
  for (size_t r = 0; r < call.out.size(); ++r) {
    Guarded back(call.out[r].bytes());
    moveChannels(call.call.results[r], last->out[r], back, /*back=*/true);
    for (int64_t e = 0; e < call.call.results[r].elements(); ++e)
      EXPECT_NEAR(back.as<double>()[e], call.output(r, e), 1e-12) << last->text();
  }
}

TEST(PlainNorm, BatchNorm) {
  for (const Dims &dims : {Dims{3, 4, 5, 2}, Dims{6, 3}, Dims{2, 2, 37}})
    for (bool training : {true, false}) {
      Type x(DType::F64, dims), vec(DType::F64, {dims[1]});
      Attrs attrs = {{"training", training}, {"epsilon", 0.01}};
      Call f("batch_norm", {x, vec, vec, vec, vec}, attrs),
          b("batch_norm_grad", {x, x, vec, vec, vec}, attrs);
      f.draw(1, 0.5, 2);
      b.draw(2, -1, 1);
      f.run(plain());
      give(b, 1, f.in[0]);
      give(b, 2, f.in[1]);
      give(b, 3, f.out[1]);
      give(b, 4, f.out[2]);
      b.run(plain());
      expectLikeWithChannelsLast(f);
      expectLikeWithChannelsLast(b);
      for (size_t i : {0, 1, 2})
        expectGradient(f, i, values(b, 0), b, i);
    }
}

TEST(PlainNorm, LayerNorm) {
  for (int64_t axis : {-1, 1, 0}) {
    Type x(DType::F64, {2, 3, 5}),
        scale(DType::F64, llvm::makeArrayRef(x.dims).drop_front(axis < 0 ? 2 : axis));
    Call f("layer_norm", {x, scale, scale}, {{"axis", axis}, {"epsilon", 0.01}});
    Type stat = f.call.results[1];
    Call b("layer_norm_grad", {x, x, scale, stat, stat}, {{"axis", axis}});
    f.draw(1);
    b.draw(2);
    f.run(plain());
    give(b, 1, f.in[0]);
    give(b, 2, f.in[1]);
    give(b, 3, f.out[1]);
    give(b, 4, f.out[2]);
    b.run(plain());
    for (size_t i : {0, 1, 2})
      expectGradient(f, i, values(b, 0), b, i);
  }
}

TEST(PlainSoftmax, AllAxes) {
  for (int64_t axis : {0, 1, 2})
    for (bool log : {false, true}) {
      Type x(DType::F64, {3, 35, 2});
      Call f(log ? "log_softmax" : "softmax", {x}, {{"axis", axis}});
      Call b(log ? "log_softmax_grad" : "softmax_grad", {x, x}, {{"axis", axis}});
      f.draw(1, -3, 3);
      b.draw(2);
      f.run(plain());
      give(b, 1, f.out[0]);
      b.run(plain());
      expectGradient(f, 0, values(b, 0), b, 0);
    }
}

TEST(PlainSoftmax, CrossEntropy) {
  for (int64_t axis : {0, 1, 2}) {
    Type x(DType::F64, {4, 3, 33});
    Dims rest = x.dims;
    rest.erase(rest.begin() + axis);
    Type labels(DType::I64, rest), lse(DType::F64, rest);
    Call f("cross_entropy", {x, labels}, {{"axis", axis}});
    Call b("cross_entropy_grad", {Type(DType::F64, {}), x, labels, lse}, {{"axis", axis}});
    f.draw(1, -3, 3);
    b.draw(2);
    f.run(plain());
    give(b, 1, f.in[0]);
    give(b, 2, f.in[1]);
    give(b, 3, f.out[1]);
    b.run(plain());
    expectGradient(f, 0, values(b, 0), b, 0);
  }
}

TEST(PlainSoftmax, MaskedAndFarFromZero) {
  Call f("softmax", {Type(DType::F32, {2, 3})});
  float x[] = {-INFINITY, 1000, 1000, -1000, -1000, -INFINITY};
  std::memcpy(f.in[0].data(), x, sizeof x);
  f.run(plain());
  const double want[] = {0, 0.5, 0.5, 0.5, 0.5, 0};
  for (int i = 0; i < 6; ++i)
    EXPECT_EQ(f.output(0, i), want[i]);
}

TEST(PlainSoftmax, ZeroIfMasked) {
  for (int64_t axis : {0, 1}) {
    Call f("softmax", {Type(DType::F32, {3, 3})}, {{"axis", axis}, {"zero_if_masked", true}});
    // The first slice is masked, and the second partly; NaN in the third is kept.
    const float rows[3][3] = {
        {-INFINITY, -INFINITY, -INFINITY}, {5, 5, -INFINITY}, {-INFINITY, NAN, -INFINITY}};
    const double want[3][2] = {{0, 0}, {0.5, 0.5}, {NAN, NAN}};
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < 3; ++i)
        f.in[0].as<float>()[axis == 1 ? 3 * r + i : 3 * i + r] = rows[r][i];
    f.run(plain());
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t i = 0; i < 2; ++i) {
        double y = f.output(0, axis == 1 ? 3 * r + i : 3 * i + r);
        EXPECT_TRUE(y == want[r][i] || (std::isnan(y) && std::isnan(want[r][i]))) << r << ", " << i;
      }
  }
}

TEST(PlainSoftmax, ALabelThatIsNoClassIsSeen) {
  Call f("cross_entropy", {Type(DType::F32, {2, 3}), Type(DType::I64, {2})});
  f.draw(1);
  f.in[1].as<int64_t>()[0] = 3;
  f.run(plain());
  EXPECT_TRUE(std::isnan(f.output(0, 0)));
  Call b("cross_entropy_grad",
         {Type(DType::F32, {}), f.call.operands[0], f.call.operands[1], f.call.results[1]});
  b.draw(2);
  b.in[2].as<int64_t>()[0] = -1;
  b.run(plain());
  EXPECT_TRUE(std::isnan(b.output(0, 0)));
  EXPECT_FALSE(std::isnan(b.output(0, 3)));
}

} // namespace
} // namespace isthmus::testing
