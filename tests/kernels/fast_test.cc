// Compares the fast kernels (oneDNN's, our matrix product and attention) with the plain ones in
// f64, for random shapes and attributes. Each call runs in a workspace of exactly the requested
// size between guard regions, and allocates no memory.

#include "kernels/gemm/register.h"
#include "kernels/onednn/register.h"
#include "kernels/plain/register.h"
#include "tests/kernels/call.h"
#include <atomic>
#include <malloc.h>

// oneDNN allocates through posix_memalign; this replacement counts the bytes.
static std::atomic<int64_t> allocatedBytes{0};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" int posix_memalign(void **p, size_t alignment, size_t bytes) {
  allocatedBytes += int64_t(bytes);
  *p = memalign(alignment, bytes);
  return *p ? 0 : ENOMEM;
}
#endif

namespace isthmus::testing {
namespace {

const KernelTable &plain() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerPlainAttention(*t);
    registerPlainConv(*t);
    registerPlainMatmul(*t);
    return t;
  }();
  return *table;
}
const KernelTable &fastKernels() {
  static const KernelTable *table = [] {
    auto *t = new KernelTable;
    registerGemmKernels(*t);
    registerOneDnnKernels(*t);
    registerUnfoldedConv(*t);
    return t;
  }();
  return *table;
}

// Returns the number of fast kernels that accept the call, and checks the results of each.
int check(llvm::StringRef op, const std::vector<Type> &operands, const Attrs &attrs, uint64_t seed,
          double tolerance) {
  Call fast(op, operands, attrs);
  std::unique_ptr<Call> slow; // the same call in f64, which runs if a fast kernel accepts the call
  KernelOptions options;
  options.threads = 1 + int(seed % 3);
  int taken = 0;
  for (const Kernel &k : fastKernels().of(op)) {
    auto kernel = k.prepare(fast.call, options);
    if (!kernel)
      continue;
    ++taken;
    fast.draw(seed);
    SCOPED_TRACE(k.library.str() + ": " + fast.text());
    fast.run(*kernel); // the first run may set up lasting state
    std::vector<Guarded> first = fast.out;
    for (Guarded &g : fast.out)
      std::memset(g.data(), 0x7f, size_t(g.bytes()));
    allocatedBytes = 0;
    fast.run(*kernel);
    EXPECT_LT(allocatedBytes, 65536) << "takes memory while running";
    for (size_t r = 0; r < first.size(); ++r)
      EXPECT_TRUE(first[r].sameBytes(fast.out[r])) << "other bits the second time";
    if (!slow) {
      std::vector<Type> wide;
      for (const Type &t : operands)
        wide.push_back(t.with(DType::F64));
      slow = std::make_unique<Call>(op, wide, attrs);
      for (size_t i = 0; i < wide.size(); ++i)
        for (int64_t e = 0; e < wide[i].elements(); ++e)
          slow->in[i].as<double>()[e] = fast.input(i, e);
      slow->run(plain());
    }
    for (size_t r = 0; r < fast.out.size(); ++r)
      EXPECT_LT(relativeError(fast, *slow, r), tolerance) << "result " << r;
  }
  return taken;
}

struct Random {
  std::mt19937 bits;
  int64_t pick(int64_t low, int64_t high) {
    return low + int64_t(bits() % uint64_t(high - low + 1));
  }
};

// Numbers of channels that layers have: small, large, and odd.
int64_t channels(Random &r) {
  const int64_t some[] = {1, 2, 3, 4, 8, 16, 17, 32, 33, 48, 64};
  return some[r.pick(0, 10)];
}

TEST(OneDnn, Convolutions) {
  Random r{std::mt19937(7)};
  int taken = 0, all = 0;
  for (int i = 0; i < 160; ++i) {
    int spatial = int(r.pick(1, i % 10 == 0 ? 3 : 2));
    bool depthwise = r.pick(0, 5) == 0;
    int64_t groups = depthwise ? channels(r) : r.pick(0, 4) == 0 ? r.pick(2, 4) : 1;
    int64_t in = depthwise ? 1 : channels(r), out = depthwise ? 1 : channels(r);
    Ints kernel, strides, dilations, pads, high, size;
    for (int a = 0; a < spatial; ++a) {
      kernel.push_back(r.pick(0, 3) == 0 ? r.pick(2, 7) : r.pick(0, 2) ? 3 : 1);
      strides.push_back(r.pick(0, 2) ? 1 : r.pick(2, 3));
      dilations.push_back(r.pick(0, 4) ? 1 : 2);
      int64_t extent = (kernel.back() - 1) * dilations.back() + 1;
      pads.push_back(r.pick(0, 1) ? extent / 2 : r.pick(0, extent - 1));
      high.push_back(r.pick(0, 1) ? pads.back() : r.pick(0, extent - 1));
      size.push_back(std::max<int64_t>(extent, r.pick(1, spatial == 3 ? 8 : 20)));
    }
    pads.insert(pads.end(), high.begin(), high.end());
    bool last = i % 3 == 1; // whether channels are last
    int64_t batch = r.pick(1, 6);
    if (i % 25 == 0) { // enough work for several rounds
      batch = 12;
      for (int64_t &s : size)
        s += spatial == 1 ? 300 : spatial == 2 ? 20 : 4;
    }
    Dims x = {batch, in * groups}, w = {out * groups, in};
    x.append(size.begin(), size.end());
    w.append(kernel.begin(), kernel.end());
    DType t = i % 4 == 3 ? DType::BF16 : DType::F32;
    double tolerance = t == DType::F32 ? 2e-6 : 2e-2;
    Attrs attrs = {{"strides", strides},
                   {"pads", pads},
                   {"dilations", dilations},
                   {"groups", groups},
                   {kChannelsLast, last}};
    int64_t channelsOfX = x[1];
    if (last) {
      x = channelsLast(Type(t, x)).dims;
      w = channelsLast(Type(t, w)).dims;
    }
    std::vector<Type> operands = {Type(t, x), Type(t, w)};
    Dims y = Call("conv", operands, attrs).call.results[0].dims;
    Attrs transpose = attrs, weight = attrs;
    transpose.set("dims", size);
    weight.set("kernel", kernel);
    std::vector<Type> back = {Type(t, y), Type(t, w)};
    if (r.pick(0, 1)) {
      operands.push_back(Type(t, {w[0]}));
      back.push_back(Type(t, {channelsOfX}));
    }
    uint64_t seed = uint64_t(i);
    taken += 0 < check("conv", operands, attrs, seed, tolerance);
    taken += 0 < check("conv_transpose", back, transpose, seed + 1000, tolerance);
    taken +=
        0 < check("conv_weight_grad", {Type(t, y), Type(t, x)}, weight, seed + 2000, tolerance);
    all += 3;
  }
  // On any machine with vector instructions, oneDNN has kernels for most layers.
  EXPECT_GT(taken, all / 4) << "of " << all;
  RecordProperty("taken", taken);
  std::printf("oneDNN took %d of %d convolutions\n", taken, all);
}

TEST(Gemm, Products) {
  Random r{std::mt19937(8)};
  const int64_t sizes[] = {1, 2, 5, 12, 16, 31, 33, 64, 100, 257};
  auto size = [&] { return r.pick(0, 30) == 0 ? r.pick(1000, 1100) : sizes[r.pick(0, 9)]; };
  int taken = 0, all = 0;
  for (int i = 0; i < 200; ++i) {
    bool ta = r.pick(0, 1), tb = r.pick(0, 1);
    int64_t m = size(), n = size(), k = size();
    Dims a, b;
    for (int64_t axes = r.pick(0, 2); axes > 0; --axes) {
      int64_t d = r.pick(1, 4);
      a.push_back(r.pick(0, 3) ? d : 1);
      if (r.pick(0, 3) || !b.empty())
        b.push_back(r.pick(0, 3) ? d : 1);
    }
    a.append({ta ? k : m, ta ? m : k});
    b.append({tb ? n : k, tb ? k : n});
    std::vector<Type> operands = {Type(DType::F32, a), Type(DType::F32, b)};
    if (r.pick(0, 1))
      operands.push_back(Type(DType::F32, {n}));
    taken +=
        check("matmul", operands, {{"transpose_a", ta}, {"transpose_b", tb}}, uint64_t(i), 2e-6);
    ++all;
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_EQ(taken, all);
  }
#endif
}

TEST(Gemm, PointwiseConvolutions) {
  Random r{std::mt19937(9)};
  int taken = 0, calls = 0; // by oneDNN and by our matrix product
  for (int i = 0; i < 40; ++i) {
    int64_t in = channels(r), out = r.pick(0, 4) ? channels(r) : 300, batch = r.pick(1, 5);
    Dims pixels = {r.pick(1, 400)};
    if (r.pick(0, 1))
      pixels = {r.pick(10, 25), r.pick(10, 40)};
    Dims x = {batch, in}, y = {batch, out}, w = {out, in};
    x.append(pixels.begin(), pixels.end());
    y.append(pixels.begin(), pixels.end());
    w.append(pixels.size(), 1);
    DType t = DType::F32;
    Attrs weight = {{"kernel", Ints(pixels.size(), 1)}};
    uint64_t seed = uint64_t(i);
    taken += check("conv", {Type(t, x), Type(t, w), Type(t, {out})}, {}, seed, 2e-6);
    taken += check("conv_transpose", {Type(t, y), Type(t, w), Type(t, {in})}, {}, seed, 2e-6);
    taken += check("conv_weight_grad", {Type(t, y), Type(t, x)}, weight, seed, 2e-6);
    calls += 3;
  }
  std::printf("%d kernels took %d calls\n", taken, calls);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_GT(taken, calls);
  }
#endif
}

// Rows of a few heads, or of one head in several chunks, with lengths that no tile divides.
TEST(Gemm, Attention) {
  Random r{std::mt19937(10)};
  const int64_t sizes[] = {1, 2, 5, 12, 33, 64, 100, 130, 257};
  auto size = [&] { return sizes[r.pick(0, 8)]; };
  int taken = 0, calls = 0;
  for (int i = 0; i < 60; ++i) {
    Dims lead;
    for (int64_t axes = r.pick(0, 2); axes > 0; --axes)
      lead.push_back(r.pick(1, 4));
    bool large = i % 10 == 0;
    int64_t queries = large ? 520 : size(), keys = large ? 600 : size();
    int64_t depth = sizes[r.pick(0, 5)], width = r.pick(0, 1) ? depth : sizes[r.pick(0, 5)];
    auto tensor = [&](std::initializer_list<int64_t> last) {
      Dims dims = lead;
      dims.append(last);
      return Type(DType::F32, dims);
    };
    Type q = tensor({queries, depth}), k = tensor({keys, depth}), v = tensor({keys, width});
    Type y = tensor({queries, width}), lse = tensor({queries});
    std::vector<Type> forward = {q, k, v}, backward = {y, q, k, v, y, lse};
    if (r.pick(0, 1)) {
      Type mask = tensor({r.pick(0, 1) ? queries : 1, r.pick(0, 1) ? keys : 1});
      for (int64_t &d : mask.dims)
        if (r.pick(0, 3) == 0)
          d = 1;
      forward.push_back(mask);
      backward.push_back(mask);
    }
    Attrs attrs = {{"scale", 0.3}, {"causal", r.pick(0, 1) == 1}};
    taken += check("attention", forward, attrs, uint64_t(i), 4e-6);
    taken += check("attention_grad", backward, attrs, uint64_t(i), 4e-6);
    calls += 2;
  }
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_EQ(taken, calls);
  }
#endif
}

void expectSameBitsOnAnyThreads(const Kernel &kernel, const std::vector<Type> &operands,
                                const Attrs &attrs) {
  auto run = [&](int threads) {
    Call c(kernel.op, operands, attrs);
    KernelOptions options;
    options.threads = threads;
    auto prepared = kernel.prepare(c.call, options);
    c.draw(3);
    if (prepared)
      c.run(*prepared);
    return std::move(c.out);
  };
  std::vector<Guarded> one = run(1);
  for (int threads : {2, 3, 4}) {
    std::vector<Guarded> more = run(threads);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_TRUE(one[i].sameBytes(more[i]))
          << kernel.op.str() << ", result " << i << " on " << threads;
  }
}

TEST(Gemm, SameBitsOnAnyThreads) {
  const DType t = DType::F32;
  const Type q(t, {2, 300, 40}), lse(t, {2, 300}), mask(t, {300});
  const Attrs attention = {{"scale", 0.2}, {"causal", true}};
  auto check = [](llvm::StringRef op, const std::vector<Type> &operands, const Attrs &attrs) {
    expectSameBitsOnAnyThreads(fastKernels().of(op).front(), operands, attrs);
  };
  check("matmul", {Type(t, {300, 700}), Type(t, {700, 1100}), Type(t, {1100})}, {});
  check("attention", {q, q, q, mask}, attention);
  check("attention_grad", {q, q, q, q, q, lse, mask}, attention);
}

TEST(Gemm, UnfoldedConvolutionsHaveTheSameBitsOnAnyThreads) {
  for (int64_t groups : {1, 4})
    for (bool last : {false, true}) {
      auto type = [&](Dims dims) {
        Type t(DType::F32, std::move(dims));
        return last ? channelsLast(t) : t;
      };
      const Type x = type({20, 40, 9, 7}), y = type({20, 36, 5, 4}),
                 w = type({36, 40 / groups, 3, 3});
      auto check = [&](llvm::StringRef op, const std::vector<Type> &operands, const char *name = "",
                       const Ints &sizes = {}) {
        Attrs attrs = {{"strides", Ints{2, 2}},
                       {"pads", Ints{1, 1, 1, 1}},
                       {"groups", groups},
                       {kChannelsLast, last}};
        if (*name)
          attrs.set(name, sizes);
        expectSameBitsOnAnyThreads(fastKernels().of(op).back(), operands, attrs);
      };
      check("conv", {x, w});
      check("conv_transpose", {y, w}, "dims", {9, 7});
      check("conv_weight_grad", {y, x}, "kernel", {3, 3});
    }
}

TEST(OneDnn, DeclinesWhatItCannotDo) {
  for (DType t : {DType::F64, DType::F16})
    EXPECT_EQ(0, check("conv", {Type(t, {1, 3, 8, 8}), Type(t, {4, 3, 3, 3})}, {}, 1, 0));
  EXPECT_FALSE(
      check("conv", {Type(DType::F32, {0, 3, 8, 8}), Type(DType::F32, {4, 3, 3, 3})}, {}, 1, 0));
}

} // namespace
} // namespace isthmus::testing
