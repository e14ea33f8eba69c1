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

// F of the operands with indices `first` and `second`.
template <typename F> void compare(const Launch &l, size_t first, size_t second) {
  dispatchAny(l.call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, bool>(l, F(), first, second);
  });
}
template <typename F> void runCompare(const Launch &l) { compare<F>(l, 0, 1); }
template <typename F> void runCompareSwapped(const Launch &l) { compare<F>(l, 1, 0); }

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

// --- Casts. Each pair of common types has a kernel. Other casts go through a type that holds all
// values of the source: double for floats, int64_t for integers and bools.

template <typename V> ISTHMUS_GPU V readAs(DType t, const void *x, int64_t i) {
  if constexpr (std::is_same_v<V, double>)
    switch (t) {
    case DType::F64:
      return static_cast<const double *>(x)[i];
    case DType::BF16:
      return static_cast<const BF16 *>(x)[i];
    case DType::F16:
      return static_cast<const F16 *>(x)[i];
    default:
      return static_cast<const float *>(x)[i];
    }
  else
    switch (t) {
    case DType::I32:
      return static_cast<const int32_t *>(x)[i];
    case DType::U8:
      return static_cast<const uint8_t *>(x)[i];
    case DType::Bool:
      return static_cast<const bool *>(x)[i];
    default:
      return static_cast<const int64_t *>(x)[i];
    }
}

template <typename V> ISTHMUS_GPU void writeAs(DType t, void *y, int64_t i, V v) {
  auto write = [&](auto *to) { to[i] = converted<std::remove_reference_t<decltype(*to)>>(v); };
  switch (t) {
  case DType::F32:
    return write(static_cast<float *>(y));
  case DType::F64:
    return write(static_cast<double *>(y));
  case DType::BF16:
    return write(static_cast<BF16 *>(y));
  case DType::F16:
    return write(static_cast<F16 *>(y));
  case DType::I32:
    return write(static_cast<int32_t *>(y));
  case DType::I64:
    return write(static_cast<int64_t *>(y));
  case DType::U8:
    return write(static_cast<uint8_t *>(y));
  case DType::Bool:
    return write(static_cast<bool *>(y));
  case DType::Token:
    return;
  }
}

template <typename V> void castThrough(const Launch &l) {
  DType from = l.call.operands[0].dtype, to = l.call.results[0].dtype;
  const void *x = l.args.operands[0];
  void *y = l.args.results[0];
  forEach(l.queue, l.call.results[0].elements(),
          [=] ISTHMUS_GPU(int64_t i) { writeAs<V>(to, y, i, readAs<V>(from, x, i)); });
}

template <typename From, typename To> void castCommon(const Launch &l) {
  mapDense(l.queue, l.call.results[0].elements(), l.operand<From>(0), l.result<To>(0),
           Cast<From, To>());
}

bool isCommon(DType t) { return isFloat(t) && t != DType::F64; }

void runCast(const Launch &l) {
  DType from = l.call.operands[0].dtype, to = l.call.results[0].dtype;
  if (!isCommon(from) || !isCommon(to))
    return isFloat(from) ? castThrough<double>(l) : castThrough<int64_t>(l);
  dispatchFloat(from, [&](auto fromTag) {
    dispatchFloat(to, [&](auto toTag) {
      using From = typename decltype(fromTag)::type;
      using To = typename decltype(toTag)::type;
      if constexpr (kIsCommon<From> && kIsCommon<To>)
        castCommon<From, To>(l);
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
  table.add({"greater", "cuda", prepareGrid<runCompareSwapped<Less>>});
  table.add({"greater_equal", "cuda", prepareGrid<runCompareSwapped<LessEqual>>});
  table.add({"where", "cuda", prepareGrid<runWhere>});
  table.add({"cast", "cuda", prepareGrid<runCast>});
  table.add({"affine", "cuda", prepareGrid<runAffine>});
  table.add({"clamp", "cuda", prepareGrid<runClamp>});
}

} // namespace isthmus::cuda
