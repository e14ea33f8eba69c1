// Optimizer steps: one loop over the elements each.

#include "kernels/element/optimizer.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

double floatScalar(const OpCall &call, const KernelArgs &args, size_t i) {
  double v = 0;
  dispatchFloat(call.operands[i].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    v = double(*operand<T>(args, i));
  });
  return v;
}
int64_t integerScalar(const OpCall &call, const KernelArgs &args, size_t i) {
  return call.operands[i].dtype == DType::I32 ? *operand<int32_t>(args, i)
                                              : *operand<int64_t>(args, i);
}

// T: type of param. S: type of the states. All arithmetic is in T's compute type.
template <typename Rule, typename T, typename S>
void stepElements(const OpCall &call, const KernelArgs &args, double rate, int64_t step) {
  using C = Compute<T>;
  constexpr int n = Rule::kStates;
  auto update = Rule(*call.attrs).template update<C>(rate, step);
  const T *param = operand<T>(args, 0), *grad = operand<T>(args, 1);
  T *newParam = result<T>(args, 0);
  const S *states[n + 1] = {};
  S *newStates[n + 1] = {};
  for (int k = 0; k < n; ++k) {
    states[k] = operand<S>(args, 2 + k);
    newStates[k] = result<S>(args, 1 + k);
  }
  parallelFor(call.results[0].elements(), kGrain, [&](int64_t begin, int64_t end) {
    vectorised([&] {
      for (int64_t i = begin; i < end; ++i) {
        C p = C(param[i]), s[n + 1];
        for (int k = 0; k < n; ++k)
          s[k] = C(states[k][i]);
        update(p, C(grad[i]), s);
        newParam[i] = T(p);
        for (int k = 0; k < n; ++k)
          newStates[k][i] = S(s[k]);
      }
    });
  });
}

// The operands after the states are the rate and, if the op has it, the count of steps.
template <typename Rule> void runStep(const OpCall &call, const KernelArgs &args) {
  constexpr size_t at = 2 + Rule::kStates;
  double rate = floatScalar(call, args, at);
  int64_t step = call.operands.size() > at + 1 ? integerScalar(call, args, at + 1) : 1;
  dispatchFloat(call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (Rule::kStates == 0 || call.operands[2].dtype == call.operands[0].dtype)
      stepElements<Rule, T, T>(call, args, rate, step);
    else
      stepElements<Rule, T, Compute<T>>(call, args, rate, step);
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainOptimizer(KernelTable &table) {
  using namespace plain;
  table.add({"sgd", "plain", prepareThreaded<runStep<Sgd>>});
  table.add({"momentum", "plain", prepareThreaded<runStep<Momentum>>});
  table.add({"adam", "plain", prepareThreaded<runStep<Adam>>});
  table.add({"adamw", "plain", prepareThreaded<runStep<AdamW>>});
  table.add({"adagrad", "plain", prepareThreaded<runStep<Adagrad>>});
}

} // namespace isthmus
