// Unary math functions, rounding, remainders and float classification. They are rare in trained
// networks, so most call the C library.

#include "kernels/element/math.h"
#include "kernels/plain/map.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void runFunction(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, F());
  });
}

// --- Remainders

template <typename F> void mapRemainders(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, F());
  });
}
void runMod(const OpCall &call, const KernelArgs &args) {
  call.attrs->getBool("fmod") ? mapRemainders<Fmod>(call, args) : mapRemainders<Mod>(call, args);
}

// --- Classification

template <typename F> void runIs(const OpCall &call, const KernelArgs &args, F f) {
  dispatchFloat(call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = operand<T>(args, 0);
    bool *y = result<bool>(args, 0);
    parallelFor(call.results[0].elements(), kGrain, [=](int64_t begin, int64_t end) {
      if constexpr (kIsHalf<T>)
        for (int64_t i = begin; i < end; ++i)
          y[i] = f(float(x[i]));
      else
        mapRow(x + begin, y + begin, end - begin, f);
    });
  });
}
void runIsNaN(const OpCall &call, const KernelArgs &args) { runIs(call, args, IsNaN()); }
void runIsPositive(const OpCall &call, const KernelArgs &args) { runIs(call, args, IsPositive()); }
void runIsInf(const OpCall &call, const KernelArgs &args) {
  runIs(call, args, IsInf{call.attrs->getBool("positive"), call.attrs->getBool("negative")});
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainMath(KernelTable &table) {
  using namespace plain;
  table.add({"log1p", "plain", prepareThreaded<runFunction<Log1p>>});
  table.add({"expm1", "plain", prepareThreaded<runFunction<Expm1>>});
  table.add({"tan", "plain", prepareThreaded<runFunction<Tan>>});
  table.add({"asin", "plain", prepareThreaded<runFunction<Asin>>});
  table.add({"acos", "plain", prepareThreaded<runFunction<Acos>>});
  table.add({"atan", "plain", prepareThreaded<runFunction<Atan>>});
  table.add({"sinh", "plain", prepareThreaded<runFunction<Sinh>>});
  table.add({"cosh", "plain", prepareThreaded<runFunction<Cosh>>});
  table.add({"asinh", "plain", prepareThreaded<runFunction<Asinh>>});
  table.add({"acosh", "plain", prepareThreaded<runFunction<Acosh>>});
  table.add({"atanh", "plain", prepareThreaded<runFunction<Atanh>>});
  table.add({"logit", "plain", prepareThreaded<runFunction<Logit>>});
  table.add({"softplus_inverse", "plain", prepareThreaded<runFunction<SoftplusInverse>>});
  table.add({"floor", "plain", prepareThreaded<runFunction<Floor>>});
  table.add({"ceil", "plain", prepareThreaded<runFunction<Ceil>>});
  table.add({"round", "plain", prepareThreaded<runFunction<Round>>});
  table.add({"mod", "plain", prepareThreaded<runMod>});
  table.add({"is_nan", "plain", prepareThreaded<runIsNaN>});
  table.add({"is_positive", "plain", prepareThreaded<runIsPositive>});
  table.add({"is_inf", "plain", prepareThreaded<runIsInf>});
}

} // namespace isthmus
