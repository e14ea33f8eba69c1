// Arithmetic, comparison, selection, casts.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/arithmetic.h"

namespace isthmus::cuda {
namespace {

template <typename F> void runArithmetic(const Launch &l) {
  dispatchNumber(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(l, F());
  });
}

template <typename F> void runCompare(const Launch &l) {
  dispatchAny(l.call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, bool>(l, F());
  });
}

template <typename T> void where(const Launch &l) {
  const Dims &dims = l.call.results[0].dims;
  auto strides = [&](size_t i) { return broadcastStrides(l.call.operands[i].dims, dims); };
  Walk<3> walk(dims, {strides(0), strides(1), strides(2)});
  Strided<3> strided(walk);
  const bool *c = l.operand<bool>(0);
  const T *a = l.operand<T>(1), *b = l.operand<T>(2);
  T *y = l.result<T>(0);
  forEach(l.queue, walk.elements(), [=] ISTHMUS_GPU(int64_t i) {
    int64_t at[3];
    strided.at(i, at);
    y[i] = c[at[0]] ? a[at[1]] : b[at[2]];
  });
}
void runWhere(const Launch &l) {
  dispatchSize(l.call.results[0].dtype, [&](auto tag) { where<typename decltype(tag)::type>(l); });
}

void runCast(const Launch &l) {
  dispatchAny(l.call.operands[0].dtype, [&](auto fromTag) {
    dispatchAny(l.call.results[0].dtype, [&](auto toTag) {
      using From = typename decltype(fromTag)::type;
      using To = typename decltype(toTag)::type;
      mapDense(l.queue, l.call.results[0].elements(), l.operand<From>(0), l.result<To>(0),
               Cast<From, To>());
    });
  });
}

void runAffine(const Launch &l) {
  double scale = l.call.attrs->getFloat("scale"), shift = l.call.attrs->getFloat("shift");
  dispatchNumber(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    if (kIsFloat<T> || isAffineInIntegers<T>(scale, shift))
      mapOne<T>(l, Affine<C>{converted<C>(scale), converted<C>(shift)});
    else if constexpr (!kIsFloat<T>)
      mapOne<T>(l, AffineOfInteger<T>{scale, shift});
  });
}

void runClamp(const Launch &l) {
  double min = l.call.attrs->getFloat("min"), max = l.call.attrs->getFloat("max");
  dispatchNumber(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(l, clampTo<T>(min, max));
  });
}

} // namespace

void registerElementwise(KernelTable &table) {
  table.add({"add", "cuda", prepareGrid<runArithmetic<Add>>});
  table.add({"sub", "cuda", prepareGrid<runArithmetic<Sub>>});
  table.add({"mul", "cuda", prepareGrid<runArithmetic<Mul>>});
  table.add({"div", "cuda", prepareGrid<runArithmetic<Div>>});
  table.add({"pow", "cuda", prepareGrid<runArithmetic<Pow>>});
  table.add({"maximum", "cuda", prepareGrid<runArithmetic<Maximum>>});
  table.add({"minimum", "cuda", prepareGrid<runArithmetic<Minimum>>});
  table.add({"equal", "cuda", prepareGrid<runCompare<Equal>>});
  table.add({"less", "cuda", prepareGrid<runCompare<Less>>});
  table.add({"less_equal", "cuda", prepareGrid<runCompare<LessEqual>>});
  table.add({"greater", "cuda", prepareGrid<runCompare<Greater>>});
  table.add({"greater_equal", "cuda", prepareGrid<runCompare<GreaterEqual>>});
  table.add({"where", "cuda", prepareGrid<runWhere>});
  table.add({"cast", "cuda", prepareGrid<runCast>});
  table.add({"affine", "cuda", prepareGrid<runAffine>});
  table.add({"clamp", "cuda", prepareGrid<runClamp>});
}

} // namespace isthmus::cuda
