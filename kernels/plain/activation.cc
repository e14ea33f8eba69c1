// Unary functions of floats, activations and their gradients.

#include "kernels/element/activation.h"
#include "kernels/plain/map.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void runUnary(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, F());
  });
}

// The same for functions that integers have too; integers wrap round.
template <typename F> void runNumber(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, F());
  });
}

bool usesTanh(const OpCall &call) { return call.attrs->getString("approximate") == "tanh"; }

void runGelu(const OpCall &call, const KernelArgs &args) {
  usesTanh(call) ? runUnary<GeluTanh>(call, args) : runUnary<GeluErf>(call, args);
}

// --- Gradients of activations, f_grad(g, v)

template <typename F> void runGrad(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, F());
  });
}

// The second operand may instead be a mask (x > 0). A float zero has all bits zero, so each
// element's bits are masked with all ones or all zeros: a branch would prevent vectorisation.
void runReluGrad(const OpCall &call, const KernelArgs &args) {
  if (call.operands[1].dtype != DType::Bool)
    return runGrad<ReluGrad>(call, args);
  dispatchSize(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *g = operand<T>(args, 0);
    const uint8_t *mask = operand<uint8_t>(args, 1);
    T *dx = result<T>(args, 0);
    parallelFor(call.results[0].elements(), kGrain, [=](int64_t begin, int64_t end) {
      vectorised([=] {
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i)
          dx[i] = g[i] & T(0 - T(mask[i]));
      });
    });
  });
}

void runGeluGrad(const OpCall &call, const KernelArgs &args) {
  usesTanh(call) ? runGrad<GeluTanhGrad>(call, args) : runGrad<GeluErfGrad>(call, args);
}

// --- Functions with numeric attributes, which become members of type Compute<T>.

template <typename C> C number(const OpCall &call, const char *name) {
  return C(call.attrs->getFloat(name));
}

template <template <typename> class F, typename... Names>
void runNumbered(const OpCall &call, const KernelArgs &args, Names... names) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapOne<T>(call, args, F<C>{number<C>(call, names)...});
  });
}
template <template <typename> class F, typename... Names>
void runNumberedGrad(const OpCall &call, const KernelArgs &args, Names... names) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapTwo<T, T>(call, args, F<C>{number<C>(call, names)...});
  });
}

void runLeakyRelu(const OpCall &call, const KernelArgs &args) {
  runNumbered<LeakyRelu>(call, args, "alpha");
}
void runElu(const OpCall &call, const KernelArgs &args) {
  runNumbered<Elu>(call, args, "alpha", "scale", "width");
}
void runSwish(const OpCall &call, const KernelArgs &args) {
  runNumbered<Swish>(call, args, "alpha");
}
void runHardSigmoid(const OpCall &call, const KernelArgs &args) {
  runNumbered<HardSigmoid>(call, args, "alpha", "beta");
}
void runThresholdedRelu(const OpCall &call, const KernelArgs &args) {
  runNumbered<ThresholdedRelu>(call, args, "alpha");
}
void runShrink(const OpCall &call, const KernelArgs &args) {
  runNumbered<Shrink>(call, args, "lambda", "bias");
}
void runClampGrad(const OpCall &call, const KernelArgs &args) {
  runNumberedGrad<ClampGrad>(call, args, "min", "max");
}
void runLeakyReluGrad(const OpCall &call, const KernelArgs &args) {
  runNumberedGrad<LeakyReluGrad>(call, args, "alpha");
}
void runEluInverse(const OpCall &call, const KernelArgs &args) {
  runNumbered<EluInverse>(call, args, "alpha", "scale", "width");
}
void runEluGrad(const OpCall &call, const KernelArgs &args) {
  runNumberedGrad<EluGrad>(call, args, "alpha", "scale", "width");
}
void runSwishGrad(const OpCall &call, const KernelArgs &args) {
  runNumberedGrad<SwishGrad>(call, args, "alpha");
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainActivation(KernelTable &table) {
  using namespace plain;
  table.add({"neg", "plain", prepareThreaded<runNumber<Neg>>});
  table.add({"abs", "plain", prepareThreaded<runNumber<Abs>>});
  table.add({"sign", "plain", prepareThreaded<runNumber<SignOf>>});
  table.add({"exp", "plain", prepareThreaded<runUnary<Exp>>});
  table.add({"log", "plain", prepareThreaded<runUnary<Log>>});
  table.add({"sqrt", "plain", prepareThreaded<runUnary<Sqrt>>});
  table.add({"rsqrt", "plain", prepareThreaded<runUnary<Rsqrt>>});
  table.add({"reciprocal", "plain", prepareThreaded<runUnary<Reciprocal>>});
  table.add({"square", "plain", prepareThreaded<runNumber<Square>>});
  table.add({"sin", "plain", prepareThreaded<runUnary<Sin>>});
  table.add({"cos", "plain", prepareThreaded<runUnary<Cos>>});
  table.add({"erf", "plain", prepareThreaded<runUnary<Erf>>});
  table.add({"softplus", "plain", prepareThreaded<runUnary<Softplus>>});
  table.add({"relu", "plain", prepareThreaded<runNumber<Relu>>});
  table.add({"tanh", "plain", prepareThreaded<runUnary<Tanh>>});
  table.add({"sigmoid", "plain", prepareThreaded<runUnary<Sigmoid>>});
  table.add({"silu", "plain", prepareThreaded<runUnary<Silu>>});
  table.add({"gelu", "plain", prepareThreaded<runGelu>});
  table.add({"leaky_relu", "plain", prepareThreaded<runLeakyRelu>});
  table.add({"softsign", "plain", prepareThreaded<runUnary<Softsign>>});
  table.add({"mish", "plain", prepareThreaded<runUnary<Mish>>});
  table.add({"hard_swish", "plain", prepareThreaded<runUnary<HardSwish>>});
  table.add({"elu", "plain", prepareThreaded<runElu>});
  table.add({"elu_inverse", "plain", prepareThreaded<runEluInverse>});
  table.add({"swish", "plain", prepareThreaded<runSwish>});
  table.add({"hard_sigmoid", "plain", prepareThreaded<runHardSigmoid>});
  table.add({"thresholded_relu", "plain", prepareThreaded<runThresholdedRelu>});
  table.add({"shrink", "plain", prepareThreaded<runShrink>});
  table.add({"prelu", "plain", prepareThreaded<runGrad<Prelu>>});
  table.add({"softsign_grad", "plain", prepareThreaded<runGrad<SoftsignGrad>>});
  table.add({"mish_grad", "plain", prepareThreaded<runGrad<MishGrad>>});
  table.add({"hard_swish_grad", "plain", prepareThreaded<runGrad<HardSwishGrad>>});
  table.add({"elu_grad", "plain", prepareThreaded<runEluGrad>});
  table.add({"swish_grad", "plain", prepareThreaded<runSwishGrad>});
  table.add({"relu_grad", "plain", prepareThreaded<runReluGrad>});
  table.add({"tanh_grad", "plain", prepareThreaded<runGrad<TanhGrad>>});
  table.add({"sigmoid_grad", "plain", prepareThreaded<runGrad<SigmoidGrad>>});
  table.add({"silu_grad", "plain", prepareThreaded<runGrad<SiluGrad>>});
  table.add({"gelu_grad", "plain", prepareThreaded<runGeluGrad>});
  table.add({"clamp_grad", "plain", prepareThreaded<runClampGrad>});
  table.add({"leaky_relu_grad", "plain", prepareThreaded<runLeakyReluGrad>});
}

} // namespace isthmus
