// Unary math functions, rounding, remainders and float classification. They are rare in trained
// networks, so most call the C library.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/math.h"

namespace isthmus::cuda {
namespace {

template <typename F> void runFunction(const Launch &l) {
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(l, F());
  });
}

// --- Remainders

template <typename F> void mapRemainders(const Launch &l) {
  dispatchNumber(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(l, F());
  });
}
void runMod(const Launch &l) {
  l.call.attrs->getBool("fmod") ? mapRemainders<Fmod>(l) : mapRemainders<Mod>(l);
}

// --- Classification

template <typename F> void runIs(const Launch &l, F f) {
  dispatchFloat(l.call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapDense(l.queue, l.call.results[0].elements(), l.operand<T>(0), l.result<bool>(0), f);
  });
}
void runIsNaN(const Launch &l) { runIs(l, IsNaN()); }
void runIsPositive(const Launch &l) { runIs(l, IsPositive()); }
void runIsInf(const Launch &l) {
  runIs(l, IsInf{l.call.attrs->getBool("positive"), l.call.attrs->getBool("negative")});
}

} // namespace

void registerMath(KernelTable &table) {
  table.add({"log1p", "cuda", prepareGrid<runFunction<Log1p>>});
  table.add({"expm1", "cuda", prepareGrid<runFunction<Expm1>>});
  table.add({"tan", "cuda", prepareGrid<runFunction<Tan>>});
  table.add({"asin", "cuda", prepareGrid<runFunction<Asin>>});
  table.add({"acos", "cuda", prepareGrid<runFunction<Acos>>});
  table.add({"atan", "cuda", prepareGrid<runFunction<Atan>>});
  table.add({"sinh", "cuda", prepareGrid<runFunction<Sinh>>});
  table.add({"cosh", "cuda", prepareGrid<runFunction<Cosh>>});
  table.add({"asinh", "cuda", prepareGrid<runFunction<Asinh>>});
  table.add({"acosh", "cuda", prepareGrid<runFunction<Acosh>>});
  table.add({"atanh", "cuda", prepareGrid<runFunction<Atanh>>});
  table.add({"logit", "cuda", prepareGrid<runFunction<Logit>>});
  table.add({"softplus_inverse", "cuda", prepareGrid<runFunction<SoftplusInverse>>});
  table.add({"floor", "cuda", prepareGrid<runFunction<Floor>>});
  table.add({"ceil", "cuda", prepareGrid<runFunction<Ceil>>});
  table.add({"round", "cuda", prepareGrid<runFunction<Round>>});
  table.add({"mod", "cuda", prepareGrid<runMod>});
  table.add({"is_nan", "cuda", prepareGrid<runIsNaN>});
  table.add({"is_positive", "cuda", prepareGrid<runIsPositive>});
  table.add({"is_inf", "cuda", prepareGrid<runIsInf>});
}

} // namespace isthmus::cuda
