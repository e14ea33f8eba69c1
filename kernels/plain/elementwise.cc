// Arithmetic, comparison, casts. The functions of one element are in kernels/element; the loops
// around them are in map.h.

#include "kernels/element/arithmetic.h"
#include "kernels/plain/map.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void runArithmetic(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, F());
  });
}

template <typename F> void runCompare(const OpCall &call, const KernelArgs &args) {
  dispatchAny(call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, bool>(call, args, F());
  });
}
template <typename T>
void whereRow(const uint8_t *c, bool stepC, const T *a, bool stepA, const T *b, bool stepB, T *y,
              int64_t n) {
  T firstA = *a, firstB = *b; // read before y, which may alias a or b, is written
  if (stepC && stepA && stepB) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T whenTrue = a[i], whenFalse = b[i]; // both are read, which avoids a branch
      y[i] = c[i] ? whenTrue : whenFalse;
    }
  } else if (stepC && stepA) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T whenTrue = a[i];
      y[i] = c[i] ? whenTrue : firstB;
    }
  } else if (stepC && stepB) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      T whenFalse = b[i];
      y[i] = c[i] ? firstA : whenFalse;
    }
  } else {
    for (int64_t i = 0; i < n; ++i)
      y[i] = c[stepC ? i : 0] ? a[stepA ? i : 0] : b[stepB ? i : 0];
  }
}

void runWhere(const OpCall &call, const KernelArgs &args) {
  const Dims &dims = call.results[0].dims;
  auto strides = [&](size_t i) { return broadcastStrides(call.operands[i].dims, dims); };
  Walk<4> walk(dims, {strides(0), strides(1), strides(2), denseStrides(dims)});
  bool stepC = walk.rowStride(0) != 0, stepA = walk.rowStride(1) != 0,
       stepB = walk.rowStride(2) != 0;
  dispatchSize(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const uint8_t *c = operand<uint8_t>(args, 0);
    const T *a = operand<T>(args, 1), *b = operand<T>(args, 2);
    T *y = result<T>(args, 0);
    parallelFor(walk.elements(), kGrain, [&](int64_t begin, int64_t end) {
      walk.forEachRow(begin, end, [&](const std::array<int64_t, 4> &at, int64_t n) {
        vectorised(
            [=] { whereRow(c + at[0], stepC, a + at[1], stepA, b + at[2], stepB, y + at[3], n); });
      });
    });
  });
}

void runCast(const OpCall &call, const KernelArgs &args) {
  dispatchAny(call.operands[0].dtype, [&](auto fromTag) {
    dispatchAny(call.results[0].dtype, [&](auto toTag) {
      using From = typename decltype(fromTag)::type;
      using To = typename decltype(toTag)::type;
      const From *x = operand<From>(args, 0);
      To *y = result<To>(args, 0);
      parallelFor(call.results[0].elements(), kGrain, [&](int64_t begin, int64_t end) {
        auto loop = [=] {
          for (int64_t i = begin; i < end; ++i)
            y[i] = converted<To>(static_cast<Compute<From>>(x[i]));
        };
        vectorisedFor<std::conditional_t<kIsFloat<From>, To, From>>(loop);
      });
    });
  });
}

// --- Ops with numeric attributes

void runAffine(const OpCall &call, const KernelArgs &args) {
  double scale = call.attrs->getFloat("scale"), shift = call.attrs->getFloat("shift");
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (kIsFloat<T> || isAffineInIntegers<T>(scale, shift))
      mapOne<T>(call, args,
                Affine<Compute<T>>{converted<Compute<T>>(scale), converted<Compute<T>>(shift)});
    else if constexpr (!kIsFloat<T>)
      mapOne<T>(call, args, AffineOfInteger<T>{scale, shift});
  });
}

void runClamp(const OpCall &call, const KernelArgs &args) {
  double min = call.attrs->getFloat("min"), max = call.attrs->getFloat("max");
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, clampTo<T>(min, max));
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainElementwise(KernelTable &table) {
  using namespace plain;
  table.add({"add", "plain", prepareThreaded<runArithmetic<Add>>});
  table.add({"sub", "plain", prepareThreaded<runArithmetic<Sub>>});
  table.add({"mul", "plain", prepareThreaded<runArithmetic<Mul>>});
  table.add({"div", "plain", prepareThreaded<runArithmetic<Div>>});
  table.add({"pow", "plain", prepareThreaded<runArithmetic<Pow>>});
  table.add({"maximum", "plain", prepareThreaded<runArithmetic<Maximum>>});
  table.add({"minimum", "plain", prepareThreaded<runArithmetic<Minimum>>});
  table.add({"equal", "plain", prepareThreaded<runCompare<Equal>>});
  table.add({"less", "plain", prepareThreaded<runCompare<Less>>});
  table.add({"less_equal", "plain", prepareThreaded<runCompare<LessEqual>>});
  table.add({"greater", "plain", prepareThreaded<runCompare<Greater>>});
  table.add({"greater_equal", "plain", prepareThreaded<runCompare<GreaterEqual>>});
  table.add({"where", "plain", prepareThreaded<runWhere>});
  table.add({"cast", "plain", prepareThreaded<runCast>});
  table.add({"affine", "plain", prepareThreaded<runAffine>});
  table.add({"clamp", "plain", prepareThreaded<runClamp>});
}

} // namespace isthmus
