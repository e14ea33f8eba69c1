// Functions of one float, activations and their gradients.

#include "kernels/plain/map.h"
#include "kernels/element/functions.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void runUnary(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, F());
  });
}

// The same for functions that integers have too; they wrap round.
template <typename F> void runNumber(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, F());
  });
}

struct Neg {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - std::make_unsigned_t<T>(x));
    else
      return -x;
  }
};
struct Abs {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return x < 0 ? Neg()(x) : x;
    else
      return std::fabs(x);
  }
};
struct Sign {
  template <typename T> T operator()(T x) const { return x > 0 ? T(1) : x < 0 ? T(-1) : x; }
};
struct Exp {
  template <typename T> T operator()(T x) const { return expOf(x); }
};
struct Log {
  template <typename T> T operator()(T x) const { return logOf(x); }
};
struct Sqrt {
  template <typename T> T operator()(T x) const { return std::sqrt(x); }
};
struct Rsqrt {
  template <typename T> T operator()(T x) const { return T(1) / std::sqrt(x); }
};
struct Reciprocal {
  template <typename T> T operator()(T x) const { return T(1) / x; }
};
struct Square {
  template <typename T> T operator()(T x) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(x) * uint64_t(x)); // the low bits are those of the square
    else
      return x * x;
  }
};
struct Sin {
  template <typename T> T operator()(T x) const { return std::sin(x); }
};
struct Cos {
  template <typename T> T operator()(T x) const { return std::cos(x); }
};
struct Erf {
  template <typename T> T operator()(T x) const { return erfOf(x); }
};
struct Softplus {
  template <typename T> T operator()(T x) const { return softplusOf(x); }
};
struct Relu { // NaN stays
  template <typename T> T operator()(T x) const { return x <= 0 ? T(0) : x; }
};
struct Tanh {
  template <typename T> T operator()(T x) const { return tanhOf(x); }
};
struct Sigmoid {
  template <typename T> T operator()(T x) const { return sigmoidOf(x); }
};
struct Silu {
  template <typename T> T operator()(T x) const { return x * sigmoidOf(x); }
};
struct GeluErf {
  template <typename T> T operator()(T x) const {
    return T(0.5) * x * (T(1) + erfOf(x * T(M_SQRT1_2)));
  }
};
// x (1 + tanh(u)) / 2 with u = k (x + a x^3)
constexpr double kGeluK = 0.79788456080286535588, kGeluA = 0.044715; // k = sqrt(2 / pi)
struct GeluTanh {
  template <typename T> T operator()(T x) const {
    return T(0.5) * x * (T(1) + tanhOf(T(kGeluK) * (x * (T(1) + T(kGeluA) * x * x))));
  }
};

bool usesTanh(const OpCall &call) { return call.attrs->getString("approximate") == "tanh"; }

void runGelu(const OpCall &call, const KernelArgs &args) {
  usesTanh(call) ? runUnary<GeluTanh>(call, args) : runUnary<GeluErf>(call, args);
}

struct Softsign {
  template <typename T> T operator()(T x) const { return x / (T(1) + std::fabs(x)); }
};
struct Mish {
  template <typename T> T operator()(T x) const { return x * tanhOf(softplusOf(x)); }
};
template <typename T> T hardSigmoidOf(T x, T alpha, T beta) {
  T y = alpha * x + beta;
  return y < 0 ? T(0) : y > 1 ? T(1) : y;
}
struct HardSwish {
  template <typename T> T operator()(T x) const { return x * hardSigmoidOf(x, T(1.0 / 6), T(0.5)); }
};

// --- Gradients of activations, f_grad(g, v)

template <typename F> void runGrad(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, F());
  });
}

struct ReluGrad {
  template <typename T> T operator()(T g, T v) const { return v > 0 ? g : T(0); }
};
struct TanhGrad {
  template <typename T> T operator()(T g, T y) const { return g * (T(1) - y * y); }
};
struct SigmoidGrad {
  template <typename T> T operator()(T g, T y) const { return g * (y * (T(1) - y)); }
};
struct SiluGrad {
  template <typename T> T operator()(T g, T x) const {
    T s = sigmoidOf(x);
    return g * (s + x * (s * (T(1) - s)));
  }
};
struct GeluErfGrad { // Phi(x) + x phi(x)
  template <typename T> T operator()(T g, T x) const {
    T cdf = T(0.5) * (T(1) + erfOf(x * T(M_SQRT1_2)));
    T pdf = T(0.39894228040143267794) * expOf(T(-0.5) * x * x); // 1 / sqrt(2 pi)
    return g * (cdf + x * pdf);
  }
};
struct GeluTanhGrad {
  template <typename T> T operator()(T g, T x) const {
    T q = x * x, t = tanhOf(T(kGeluK) * (x * (T(1) + T(kGeluA) * q)));
    T slope = (T(1) - t * t) * (T(kGeluK) * (T(1) + T(3 * kGeluA) * q));
    return g * (T(0.5) * (T(1) + t + x * slope));
  }
};

struct SoftsignGrad {
  template <typename T> T operator()(T g, T y) const {
    T left = T(1) - std::fabs(y);
    return g * (left * left);
  }
};
struct MishGrad {
  template <typename T> T operator()(T g, T x) const {
    T t = tanhOf(softplusOf(x));
    return g * (t + x * ((T(1) - t * t) * sigmoidOf(x)));
  }
};
struct HardSwishGrad {
  template <typename T> T operator()(T g, T x) const {
    T slope = x > -3 && x < 3 ? T(1.0 / 6) : T(0);
    return g * (hardSigmoidOf(x, T(1.0 / 6), T(0.5)) + x * slope);
  }
};

void runGeluGrad(const OpCall &call, const KernelArgs &args) {
  usesTanh(call) ? runGrad<GeluTanhGrad>(call, args) : runGrad<GeluErfGrad>(call, args);
}

// --- Rows with numbers among their attributes

void runClampGrad(const OpCall &call, const KernelArgs &args) {
  double min = call.attrs->getFloat("min"), max = call.attrs->getFloat("max");
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapTwo<T, T>(call, args, [low = C(min), high = C(max)](C g, C v) {
      return v > low && v < high ? g : C(0);
    });
  });
}

void runLeakyRelu(const OpCall &call, const KernelArgs &args) {
  double alpha = call.attrs->getFloat("alpha");
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapOne<T>(call, args, [a = C(alpha)](C x) { return x > 0 ? x : a * x; });
  });
}

void runLeakyReluGrad(const OpCall &call, const KernelArgs &args) {
  double alpha = call.attrs->getFloat("alpha");
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    mapTwo<T, T>(call, args, [a = C(alpha)](C g, C v) { return v > 0 ? g : a * g; });
  });
}

// --- Rows with several

// Calls f with the attributes as numbers of the type that is computed in.
template <typename F> void withNumbers(const OpCall &call, std::array<const char *, 3> names, F f) {
  std::array<double, 3> numbers{};
  for (size_t i = 0; i < 3; ++i)
    if (names[i])
      numbers[i] = call.attrs->getFloat(names[i]);
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using C = Compute<typename decltype(tag)::type>;
    f(tag, C(numbers[0]), C(numbers[1]), C(numbers[2]));
  });
}

void runElu(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"alpha", "scale", "width"}, [&](auto tag, auto alpha, auto scale, auto width) {
    using C = decltype(alpha);
    C below = scale * alpha;
    mapOne<typename decltype(tag)::type>(call, args, [=](C x) {
      C low = x > 0 ? C(0) : x; // beyond, the exponential may be infinite
      return x > 0 ? scale * x : below * expm1Of(low / width);
    });
  });
}

void runEluGrad(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"alpha", "scale", "width"}, [&](auto tag, auto alpha, auto scale, auto width) {
    using C = decltype(alpha);
    using T = typename decltype(tag)::type;
    C below = scale * alpha;
    mapTwo<T, T>(call, args, [=](C g, C y) { return g * (y > 0 ? scale : (y + below) / width); });
  });
}

void runSwish(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"alpha"}, [&](auto tag, auto alpha, auto, auto) {
    using C = decltype(alpha);
    mapOne<typename decltype(tag)::type>(call, args, [=](C x) { return x * sigmoidOf(alpha * x); });
  });
}

void runSwishGrad(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"alpha"}, [&](auto tag, auto alpha, auto, auto) {
    using C = decltype(alpha);
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, [=](C g, C x) {
      C s = sigmoidOf(alpha * x);
      return g * (s + alpha * x * (s * (C(1) - s)));
    });
  });
}

void runHardSigmoid(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"alpha", "beta"}, [&](auto tag, auto alpha, auto beta, auto) {
    using C = decltype(alpha);
    mapOne<typename decltype(tag)::type>(call, args,
                                         [=](C x) { return hardSigmoidOf(x, alpha, beta); });
  });
}

void runThresholdedRelu(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"alpha"}, [&](auto tag, auto alpha, auto, auto) {
    using C = decltype(alpha);
    mapOne<typename decltype(tag)::type>(call, args, [=](C x) { return x <= alpha ? C(0) : x; });
  });
}

void runShrink(const OpCall &call, const KernelArgs &args) {
  withNumbers(call, {"lambda", "bias"}, [&](auto tag, auto edge, auto bias, auto) {
    using C = decltype(edge);
    mapOne<typename decltype(tag)::type>(call, args, [=](C x) {
      return x < -edge ? x + bias : x > edge ? x - bias : x != x ? x : C(0);
    });
  });
}

struct Prelu {
  template <typename T> T operator()(T x, T slope) const { return x > 0 ? x : slope * x; }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainActivation(KernelTable &table) {
  using namespace plain;
  table.add({"neg", "plain", prepareThreaded<runNumber<Neg>>});
  table.add({"abs", "plain", prepareThreaded<runNumber<Abs>>});
  table.add({"sign", "plain", prepareThreaded<runNumber<Sign>>});
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
  table.add({"relu_grad", "plain", prepareThreaded<runGrad<ReluGrad>>});
  table.add({"tanh_grad", "plain", prepareThreaded<runGrad<TanhGrad>>});
  table.add({"sigmoid_grad", "plain", prepareThreaded<runGrad<SigmoidGrad>>});
  table.add({"silu_grad", "plain", prepareThreaded<runGrad<SiluGrad>>});
  table.add({"gelu_grad", "plain", prepareThreaded<runGeluGrad>});
  table.add({"clamp_grad", "plain", prepareThreaded<runClampGrad>});
  table.add({"leaky_relu_grad", "plain", prepareThreaded<runLeakyReluGrad>});
}

} // namespace isthmus
