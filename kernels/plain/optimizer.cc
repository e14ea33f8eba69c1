// Steps of optimizers: one loop over the elements each.

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

// Calls update(p, g, s...) on each element, all in the type that is computed in; it changes p and
// the states s, which are then stored. T: of param; S: of the states.
template <typename T, typename S, size_t... I, typename F>
void forEachElement(const OpCall &call, const KernelArgs &args, F update,
                    std::index_sequence<I...>) {
  using C = Compute<T>;
  const T *param = operand<T>(args, 0), *grad = operand<T>(args, 1);
  T *newParam = result<T>(args, 0);
  const S *states[] = {operand<S>(args, 2 + I)..., nullptr};
  S *newStates[] = {result<S>(args, 1 + I)..., nullptr};
  parallelFor(call.results[0].elements(), kGrain, [&](int64_t begin, int64_t end) {
    vectorised([&] {
      for (int64_t i = begin; i < end; ++i) {
        C p = C(param[i]), g = C(grad[i]), s[] = {C(states[I][i])..., C()};
        update(p, g, s[I]...);
        newParam[i] = T(p);
        ((newStates[I][i] = S(s[I])), ...);
      }
    });
  });
}

// By the types of the parameter and of its states. `make(tag)` gives the update for a type.
template <size_t States, typename Make>
void runStep(const OpCall &call, const KernelArgs &args, Make make) {
  dispatchFloat(call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    auto update = make(TypeTag<C>());
    if (States == 0 || call.operands[2].dtype == call.operands[0].dtype)
      forEachElement<T, T>(call, args, update, std::make_index_sequence<States>());
    else
      forEachElement<T, C>(call, args, update, std::make_index_sequence<States>());
  });
}

void runSgd(const OpCall &call, const KernelArgs &args) {
  double rate = floatScalar(call, args, 2), decay = call.attrs->getFloat("weight_decay");
  runStep<0>(call, args, [=](auto tag) {
    using C = typename decltype(tag)::type;
    return [r = C(rate), d = C(decay)](C &p, C g) { p -= (g + p * d) * r; };
  });
}

void runMomentum(const OpCall &call, const KernelArgs &args) {
  const Attrs &a = *call.attrs;
  double rate = floatScalar(call, args, 3), decay = a.getFloat("weight_decay"),
         momentum = a.getFloat("momentum"), gain = a.getFloat("gain");
  if (call.operands.size() > 4 && integerScalar(call, args, 4) <= 0)
    gain = 1;
  bool nesterov = a.getBool("nesterov");
  runStep<1>(call, args, [=](auto tag) {
    using C = typename decltype(tag)::type;
    return [=, r = C(rate), d = C(decay), m = C(momentum), k = C(gain)](C &p, C g, C &v) {
      g += p * d;
      v = v * m + g * k;
      p -= (nesterov ? g + v * m : v) * r;
    };
  });
}

// What is left of the bias after `step` steps.
double correction(double decay, int64_t step) {
  return step > 0 ? 1 - std::pow(decay, double(step)) : 1;
}

// direction = mean / first / (sqrt(square) / second + epsilon), or with epsilon added to the root
// itself: either way mean * byMean / (sqrt(square) * byRoot + epsilon).
struct AdamNumbers {
  double beta1, beta2, epsilon, byMean, byRoot, rate, decay;

  AdamNumbers(const OpCall &call, const KernelArgs &args)
      : beta1(call.attrs->getFloat("beta1")), beta2(call.attrs->getFloat("beta2")),
        epsilon(call.attrs->getFloat("epsilon")), rate(floatScalar(call, args, 4)),
        decay(call.attrs->getFloat("weight_decay")) {
    int64_t step = integerScalar(call, args, 5);
    double first = correction(beta1, step), second = std::sqrt(correction(beta2, step));
    bool hat = call.attrs->getBool("epsilon_hat");
    byMean = hat ? second / first : 1 / first;
    byRoot = hat ? 1 : 1 / second;
  }
};

template <typename C> struct AdamUpdate {
  C beta1, rest1, beta2, rest2, epsilon, byMean, byRoot, rate;

  explicit AdamUpdate(const AdamNumbers &a)
      : beta1(C(a.beta1)), rest1(C(1 - a.beta1)), beta2(C(a.beta2)), rest2(C(1 - a.beta2)),
        epsilon(C(a.epsilon)), byMean(C(a.byMean)), byRoot(C(a.byRoot)), rate(C(a.rate)) {}
  void operator()(C &p, C g, C &mean, C &square) const {
    mean = mean * beta1 + g * rest1;
    square = square * beta2 + g * g * rest2;
    p -= mean * byMean / (std::sqrt(square) * byRoot + epsilon) * rate;
  }
};

void runAdam(const OpCall &call, const KernelArgs &args) {
  AdamNumbers a(call, args);
  double after = 1 - call.attrs->getFloat("decay_after");
  runStep<2>(call, args, [=](auto tag) {
    using C = typename decltype(tag)::type;
    return [update = AdamUpdate<C>(a), d = C(a.decay), keep = C(after)](C &p, C g, C &m, C &s) {
      update(p, g + p * d, m, s);
      p *= keep;
    };
  });
}

void runAdamW(const OpCall &call, const KernelArgs &args) {
  AdamNumbers a(call, args);
  runStep<2>(call, args, [=](auto tag) {
    using C = typename decltype(tag)::type;
    return [update = AdamUpdate<C>(a), keep = C(1 - a.rate * a.decay)](C &p, C g, C &m, C &s) {
      p *= keep;
      update(p, g, m, s);
    };
  });
}

void runAdagrad(const OpCall &call, const KernelArgs &args) {
  const Attrs &a = *call.attrs;
  double rate = floatScalar(call, args, 3) /
                (1 + double(integerScalar(call, args, 4)) * a.getFloat("rate_decay"));
  double decay = a.getFloat("weight_decay"), epsilon = a.getFloat("epsilon");
  runStep<1>(call, args, [=](auto tag) {
    using C = typename decltype(tag)::type;
    return [r = C(rate), d = C(decay), e = C(epsilon)](C &p, C g, C &sum) {
      g += p * d;
      sum += g * g;
      p -= g / (std::sqrt(sum) + e) * r;
    };
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainOptimizer(KernelTable &table) {
  using namespace plain;
  table.add({"sgd", "plain", prepareThreaded<runSgd>});
  table.add({"momentum", "plain", prepareThreaded<runMomentum>});
  table.add({"adam", "plain", prepareThreaded<runAdam>});
  table.add({"adamw", "plain", prepareThreaded<runAdamW>});
  table.add({"adagrad", "plain", prepareThreaded<runAdagrad>});
}

} // namespace isthmus
