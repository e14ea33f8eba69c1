// Unary functions of floats, activations and their gradients.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/activation.h"

namespace isthmus::cuda {
namespace {

template <typename F> void runUnary(const Launch &l) {
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(l, F());
  });
}

// The same for functions that integers have too; integers wrap round.
template <typename F> void runNumber(const Launch &l) {
  dispatchNumber(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(l, F());
  });
}

bool usesTanh(const Launch &l) { return l.call.attrs->getString("approximate") == "tanh"; }

void runGelu(const Launch &l) { usesTanh(l) ? runUnary<GeluTanh>(l) : runUnary<GeluErf>(l); }

void runPrelu(const Launch &l) {
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(l, Prelu());
  });
}

// --- Gradients of activations, f_grad(g, v), of operands of one shape

template <typename F> void runGrad(const Launch &l) {
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapPair<T>(l, F());
  });
}

// The second operand may instead be a mask (x > 0). Elements are only moved, so the element size
// suffices: zero has all bits zero in every type.
template <typename T> void masked(const Launch &l) {
  const T *g = l.operand<T>(0);
  const bool *mask = l.operand<bool>(1);
  T *dx = l.result<T>(0);
  forEach(l.queue, l.call.results[0].elements(),
          [=] ISTHMUS_GPU(int64_t i) { dx[i] = mask[i] ? g[i] : T(0); });
}
void runReluGrad(const Launch &l) {
  if (l.call.operands[1].dtype != DType::Bool)
    return runGrad<ReluGrad>(l);
  dispatchSize(l.call.results[0].dtype, [&](auto tag) { masked<typename decltype(tag)::type>(l); });
}

void runGeluGrad(const Launch &l) {
  usesTanh(l) ? runGrad<GeluTanhGrad>(l) : runGrad<GeluErfGrad>(l);
}

// --- Functions with numeric attributes, which become members of type Compute<T>.

template <typename C> C number(const Launch &l, const char *name) {
  return C(l.call.attrs->getFloat(name));
}

template <template <typename> class F, typename... Names>
void runNumbered(const Launch &l, Names... names) {
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapOne<T>(l, F<C>{number<C>(l, names)...});
  });
}
template <template <typename> class F, typename... Names>
void runNumberedGrad(const Launch &l, Names... names) {
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapPair<T>(l, F<C>{number<C>(l, names)...});
  });
}

void runLeakyRelu(const Launch &l) { runNumbered<LeakyRelu>(l, "alpha"); }
void runElu(const Launch &l) { runNumbered<Elu>(l, "alpha", "scale", "width"); }
void runSwish(const Launch &l) { runNumbered<Swish>(l, "alpha"); }
void runHardSigmoid(const Launch &l) { runNumbered<HardSigmoid>(l, "alpha", "beta"); }
void runThresholdedRelu(const Launch &l) { runNumbered<ThresholdedRelu>(l, "alpha"); }
void runShrink(const Launch &l) { runNumbered<Shrink>(l, "lambda", "bias"); }
void runClampGrad(const Launch &l) { runNumberedGrad<ClampGrad>(l, "min", "max"); }
void runLeakyReluGrad(const Launch &l) { runNumberedGrad<LeakyReluGrad>(l, "alpha"); }
void runEluInverse(const Launch &l) { runNumbered<EluInverse>(l, "alpha", "scale", "width"); }
void runEluGrad(const Launch &l) { runNumberedGrad<EluGrad>(l, "alpha", "scale", "width"); }
void runSwishGrad(const Launch &l) { runNumberedGrad<SwishGrad>(l, "alpha"); }

} // namespace

void registerActivation(KernelTable &table) {
  table.add({"neg", "cuda", prepareGrid<runNumber<Neg>>});
  table.add({"abs", "cuda", prepareGrid<runNumber<Abs>>});
  table.add({"sign", "cuda", prepareGrid<runNumber<SignOf>>});
  table.add({"exp", "cuda", prepareGrid<runUnary<Exp>>});
  table.add({"log", "cuda", prepareGrid<runUnary<Log>>});
  table.add({"sqrt", "cuda", prepareGrid<runUnary<Sqrt>>});
  table.add({"rsqrt", "cuda", prepareGrid<runUnary<Rsqrt>>});
  table.add({"reciprocal", "cuda", prepareGrid<runUnary<Reciprocal>>});
  table.add({"square", "cuda", prepareGrid<runNumber<Square>>});
  table.add({"sin", "cuda", prepareGrid<runUnary<Sin>>});
  table.add({"cos", "cuda", prepareGrid<runUnary<Cos>>});
  table.add({"erf", "cuda", prepareGrid<runUnary<Erf>>});
  table.add({"softplus", "cuda", prepareGrid<runUnary<Softplus>>});
  table.add({"relu", "cuda", prepareGrid<runNumber<Relu>>});
  table.add({"tanh", "cuda", prepareGrid<runUnary<Tanh>>});
  table.add({"sigmoid", "cuda", prepareGrid<runUnary<Sigmoid>>});
  table.add({"silu", "cuda", prepareGrid<runUnary<Silu>>});
  table.add({"gelu", "cuda", prepareGrid<runGelu>});
  table.add({"leaky_relu", "cuda", prepareGrid<runLeakyRelu>});
  table.add({"softsign", "cuda", prepareGrid<runUnary<Softsign>>});
  table.add({"mish", "cuda", prepareGrid<runUnary<Mish>>});
  table.add({"hard_swish", "cuda", prepareGrid<runUnary<HardSwish>>});
  table.add({"elu", "cuda", prepareGrid<runElu>});
  table.add({"elu_inverse", "cuda", prepareGrid<runEluInverse>});
  table.add({"swish", "cuda", prepareGrid<runSwish>});
  table.add({"hard_sigmoid", "cuda", prepareGrid<runHardSigmoid>});
  table.add({"thresholded_relu", "cuda", prepareGrid<runThresholdedRelu>});
  table.add({"shrink", "cuda", prepareGrid<runShrink>});
  table.add({"prelu", "cuda", prepareGrid<runPrelu>});
  table.add({"softsign_grad", "cuda", prepareGrid<runGrad<SoftsignGrad>>});
  table.add({"mish_grad", "cuda", prepareGrid<runGrad<MishGrad>>});
  table.add({"hard_swish_grad", "cuda", prepareGrid<runGrad<HardSwishGrad>>});
  table.add({"elu_grad", "cuda", prepareGrid<runEluGrad>});
  table.add({"swish_grad", "cuda", prepareGrid<runSwishGrad>});
  table.add({"relu_grad", "cuda", prepareGrid<runReluGrad>});
  table.add({"tanh_grad", "cuda", prepareGrid<runGrad<TanhGrad>>});
  table.add({"sigmoid_grad", "cuda", prepareGrid<runGrad<SigmoidGrad>>});
  table.add({"silu_grad", "cuda", prepareGrid<runGrad<SiluGrad>>});
  table.add({"gelu_grad", "cuda", prepareGrid<runGeluGrad>});
  table.add({"clamp_grad", "cuda", prepareGrid<runClampGrad>});
  table.add({"leaky_relu_grad", "cuda", prepareGrid<runLeakyReluGrad>});
}

} // namespace isthmus::cuda
