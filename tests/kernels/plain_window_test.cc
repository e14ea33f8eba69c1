// Compares plain convolutions and pools with definitions that are one loop over all elements.

#include "ir/ops/window.h"
#include "kernels/plain/register.h"
#include "tests/kernels/call.h"

namespace isthmus::testing {
namespace {

const KernelTable &plain() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerPlainConv(*t);
    registerPlainPool(*t);
    return t;
  }();
  return *table;
}

struct Case {
  int spatial, groups, batch, perGroupIn, perGroupOut;
  Ints in, kernel, strides, pads, dilations;
};

Case drawCase(std::mt19937 &r) {
  auto pick = [&](int low, int high) { return low + int(r() % unsigned(high - low + 1)); };
  Case c{
      pick(1, 3), pick(0, 2) ? 1 : pick(2, 3), pick(1, 2), pick(1, 6), pick(1, 6), {}, {}, {}, {},
      {}};
  Ints high;
  for (int a = 0; a < c.spatial; ++a) {
    c.kernel.push_back(pick(1, 3));
    c.strides.push_back(pick(1, 3));
    c.dilations.push_back(pick(1, 2));
    int64_t extent = (c.kernel.back() - 1) * c.dilations.back() + 1;
    c.pads.push_back(r() % unsigned(extent));
    high.push_back(r() % unsigned(extent));
    c.in.push_back(extent + pick(0, c.spatial == 3 ? 4 : 8));
  }
  if (r() % 8 == 0)
    c.in.back() += 150; // longer than one piece
  c.pads.insert(c.pads.end(), high.begin(), high.end());
  return c;
}

Dims dimsOf(int64_t a, int64_t b, llvm::ArrayRef<int64_t> rest) {
  Dims d = {a, b};
  d.append(rest.begin(), rest.end());
  return d;
}

// Calls f(y element, x element or -1 in the padding, w element) for all terms; all are flat
// indices.
template <typename F>
void forEachTerm(const Case &c, const Dims &x, const Dims &w, const Dims &y, F f) {
  auto size = [](llvm::ArrayRef<int64_t> d) {
    int64_t n = 1;
    for (int64_t v : d)
      n *= v;
    return n;
  };
  auto sx = llvm::makeArrayRef(x).drop_front(2), sw = llvm::makeArrayRef(w).drop_front(2),
       sy = llvm::makeArrayRef(y).drop_front(2);
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t p = 0; p < size(sy); ++p)
        for (int64_t ci = 0; ci < w[1]; ++ci)
          for (int64_t k = 0; k < size(sw); ++k) {
            int64_t channel = o / c.perGroupOut * c.perGroupIn + ci, at = 0, restP = p, restK = k,
                    step = 1;
            bool inside = true;
            for (int a = c.spatial - 1; a >= 0; --a) {
              int64_t i = restP % sy[a] * c.strides[a] + restK % sw[a] * c.dilations[a] - c.pads[a];
              inside = inside && i >= 0 && i < sx[a];
              at += i * step;
              step *= sx[a];
              restP /= sy[a];
              restK /= sw[a];
            }
            f((n * y[1] + o) * size(sy) + p, inside ? (n * x[1] + channel) * size(sx) + at : -1,
              (o * w[1] + ci) * size(sw) + k);
          }
}

void expectSameBitsWithChannelsLast(const Call &call) {
  auto last = withChannelsLast(call);
  last->run(plain());
  Guarded back(call.out[0].bytes());
  moveChannels(call.call.results[0], last->out[0], back, /*back=*/true);
  EXPECT_EQ(last->call.results[0], channelsLast(call.call.results[0])) << last->text();
  EXPECT_TRUE(back.sameBytes(call.out[0])) << last->text();
}

TEST(PlainConv, AgreesWithTheDefinition) {
  std::mt19937 random(1);
  for (int i = 0; i < 150; ++i) {
    Case c = drawCase(random);
    Dims x = dimsOf(c.batch, c.groups * c.perGroupIn, c.in),
         w = dimsOf(c.groups * c.perGroupOut, c.perGroupIn, c.kernel);
    Attrs attrs = {{"strides", c.strides},
                   {"pads", c.pads},
                   {"dilations", c.dilations},
                   {"groups", int64_t(c.groups)}};
    DType t = i % 3 ? DType::F64 : DType::F32;
    double tolerance = i % 3 ? 1e-13 : 1e-6;
    Call conv("conv", {Type(t, x), Type(t, w), Type(t, {w[0]})}, attrs);
    Dims y = conv.call.results[0].dims;
    Attrs transposeAttrs = attrs, weightAttrs = attrs;
    transposeAttrs.set("dims", c.in);
    weightAttrs.set("kernel", c.kernel);
    Call transpose("conv_transpose", {Type(t, y), Type(t, w), Type(t, {x[1]})}, transposeAttrs);
    Call weight("conv_weight_grad", {Type(t, y), Type(t, x)}, weightAttrs);
    int64_t seed = i;
    for (Call *call : {&conv, &transpose, &weight}) {
      call->draw(uint64_t(seed += 1000));
      call->run(plain());
      expectSameBitsWithChannelsLast(*call);
    }

    auto perChannel = [](const Dims &d) {
      int64_t n = 1;
      for (size_t a = 2; a < d.size(); ++a)
        n *= d[a];
      return n;
    };
    std::vector<double> wantY(size_t(conv.call.results[0].elements())),
        wantX(size_t(Type(t, x).elements())), wantW(size_t(Type(t, w).elements()), 0.0);
    for (size_t k = 0; k < wantY.size(); ++k)
      wantY[k] = conv.input(2, int64_t(k) / perChannel(y) % y[1]);
    for (size_t k = 0; k < wantX.size(); ++k)
      wantX[k] = transpose.input(2, int64_t(k) / perChannel(x) % x[1]);
    forEachTerm(c, x, w, y, [&](int64_t yi, int64_t xi, int64_t wi) {
      if (xi < 0)
        return;
      wantY[size_t(yi)] += conv.input(0, xi) * conv.input(1, wi);
      wantX[size_t(xi)] += transpose.input(0, yi) * transpose.input(1, wi);
      wantW[size_t(wi)] += weight.input(0, yi) * weight.input(1, xi);
    });
    auto check = [&](const Call &call, const std::vector<double> &want) {
      for (size_t k = 0; k < want.size(); ++k)
        ASSERT_NEAR(call.output(0, int64_t(k)), want[k], tolerance * 100)
            << call.text() << " element " << k;
    };
    check(conv, wantY);
    check(transpose, wantX);
    check(weight, wantW);
  }
}

TEST(PlainPool, AgreesWithTheDefinition) {
  std::mt19937 random(2);
  for (int i = 0; i < 150; ++i) {
    Case c = drawCase(random);
    c.perGroupIn = c.perGroupOut = 1;
    c.groups = 3;
    bool ceil = i % 2, countPad = i % 3;
    Dims x = dimsOf(c.batch, 3, c.in), w = dimsOf(3, 1, c.kernel);
    DType t = DType::F64;
    Attrs attrs = {
        {"kernel", c.kernel}, {"strides", c.strides}, {"pads", c.pads}, {"ceil_mode", ceil}};
    Attrs maxAttrs = attrs;
    maxAttrs.set("dilations", c.dilations);
    Call max("max_pool", {Type(t, x)}, maxAttrs);
    Dims y = max.call.results[0].dims;
    Call grad("max_pool_grad", {Type(t, y), Type(t, x)}, maxAttrs);
    Call take("max_pool_take", {Type(t, x), Type(t, x)}, maxAttrs);
    uint64_t seed = uint64_t(i);
    for (Call *call : {&max, &grad, &take})
      call->draw(seed += 1000);
    std::memcpy(grad.in[1].data(), max.in[0].data(),
                size_t(max.in[0].bytes())); // one x for the three
    std::memcpy(take.in[1].data(), max.in[0].data(), size_t(max.in[0].bytes()));
    for (Call *call : {&max, &grad, &take})
      call->run(plain());
    std::vector<int64_t> where(size_t(max.call.results[0].elements()), -1);
    forEachTerm(c, x, w, y, [&](int64_t yi, int64_t xi, int64_t) {
      int64_t &best = where[size_t(yi)];
      if (xi >= 0 && (best < 0 || max.input(0, xi) > max.input(0, best)))
        best = xi;
    });
    std::vector<double> wantX(size_t(Type(t, x).elements()));
    for (size_t k = 0; k < where.size(); ++k) {
      ASSERT_EQ(max.output(0, int64_t(k)), where[k] < 0 ? -INFINITY : max.input(0, where[k]))
          << max.text();
      ASSERT_EQ(take.output(0, int64_t(k)), where[k] < 0 ? 0 : take.input(0, where[k]))
          << take.text();
      if (where[k] >= 0)
        wantX[size_t(where[k])] += grad.input(0, int64_t(k));
    }
    for (size_t k = 0; k < wantX.size(); ++k)
      ASSERT_NEAR(grad.output(0, int64_t(k)), wantX[k], 1e-12) << grad.text();

    for (int a = 0; a < c.spatial; ++a) { // averages have no dilation
      c.dilations[a] = 1;
      c.pads[a] = std::min(c.pads[a], c.kernel[a] - 1);
      c.pads[a + c.spatial] = std::min(c.pads[a + c.spatial], c.kernel[a] - 1);
    }
    attrs.set("pads", c.pads);
    attrs.set("count_include_pad", countPad);
    Call avg("avg_pool", {Type(t, x)}, attrs);
    y = avg.call.results[0].dims;
    Attrs gradAttrs = attrs;
    gradAttrs.set("dims", c.in);
    Call avgGrad("avg_pool_grad", {Type(t, y)}, gradAttrs);
    for (Call *call : {&avg, &avgGrad}) {
      call->draw(seed += 1000);
      call->run(plain());
    }
    std::vector<double> sums(size_t(Type(t, y).elements())), counts(sums.size()), dx(wantX.size());
    forEachTerm(c, x, w, y, [&](int64_t yi, int64_t xi, int64_t) {
      sums[size_t(yi)] += xi < 0 ? 0 : avg.input(0, xi);
      counts[size_t(yi)] += xi >= 0 ? 1 : 0;
    });
    // Padding counts up to the padded end; on each axis that is min(kernel, in + pad_high - start).
    for (size_t k = 0; k < sums.size() && countPad; ++k) {
      counts[k] = 1;
      int64_t rest = int64_t(k);
      for (int a = c.spatial - 1; a >= 0; --a) {
        int64_t start = rest % y[size_t(a) + 2] * c.strides[a] - c.pads[a];
        rest /= y[size_t(a) + 2];
        counts[k] *= double(std::min(c.kernel[a], c.in[a] + c.pads[a + c.spatial] - start));
      }
    }
    forEachTerm(c, x, w, y, [&](int64_t yi, int64_t xi, int64_t) {
      if (xi >= 0)
        dx[size_t(xi)] += avgGrad.input(0, yi) / counts[size_t(yi)];
    });
    for (size_t k = 0; k < sums.size(); ++k)
      ASSERT_NEAR(avg.output(0, int64_t(k)), counts[k] ? sums[k] / counts[k] : 0, 1e-12)
          << avg.text();
    for (size_t k = 0; k < dx.size(); ++k)
      ASSERT_NEAR(avgGrad.output(0, int64_t(k)), dx[k], 1e-12) << avgGrad.text();
  }
}

TEST(PlainPool, KeepsNaN) {
  Call max("max_pool", {Type(DType::F32, {1, 1, 4})}, {{"kernel", Ints{2}}, {"strides", Ints{2}}});
  float x[] = {1, NAN, 3, 2};
  std::memcpy(max.in[0].data(), x, sizeof x);
  max.run(plain());
  EXPECT_TRUE(std::isnan(max.output(0, 0)));
  EXPECT_EQ(max.output(0, 1), 3);
}

TEST(PlainConv, SameBitsOnAnyThreads) {
  Attrs attrs = {{"pads", Ints{1, 1, 1, 1}}};
  Call one("conv", {Type(DType::F32, {2, 5, 9, 9}), Type(DType::F32, {7, 5, 3, 3})}, attrs);
  Call three("conv", {Type(DType::F32, {2, 5, 9, 9}), Type(DType::F32, {7, 5, 3, 3})}, attrs);
  one.draw(3);
  three.draw(3);
  one.run(plain(), 1);
  three.run(plain(), 3);
  EXPECT_TRUE(one.out[0].sameBytes(three.out[0]));
}

} // namespace
} // namespace isthmus::testing
