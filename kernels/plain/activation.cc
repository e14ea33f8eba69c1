// Functions of one float, activations and their gradients.

#include "kernels/plain/map.h"
#include "kernels/plain/math.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void runUnary(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, F());
  });
}

struct Neg {
  template <typename T> T operator()(T x) const { return -x; }
};
struct Abs {
  template <typename T> T operator()(T x) const { return std::fabs(x); }
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
  template <typename T> T operator()(T x) const { return x * x; }
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

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainActivation(KernelTable &table) {
  using namespace plain;
  table.add({"neg", "plain", prepareThreaded<runUnary<Neg>>});
  table.add({"abs", "plain", prepareThreaded<runUnary<Abs>>});
  table.add({"sign", "plain", prepareThreaded<runUnary<Sign>>});
  table.add({"exp", "plain", prepareThreaded<runUnary<Exp>>});
  table.add({"log", "plain", prepareThreaded<runUnary<Log>>});
  table.add({"sqrt", "plain", prepareThreaded<runUnary<Sqrt>>});
  table.add({"rsqrt", "plain", prepareThreaded<runUnary<Rsqrt>>});
  table.add({"reciprocal", "plain", prepareThreaded<runUnary<Reciprocal>>});
  table.add({"square", "plain", prepareThreaded<runUnary<Square>>});
  table.add({"sin", "plain", prepareThreaded<runUnary<Sin>>});
  table.add({"cos", "plain", prepareThreaded<runUnary<Cos>>});
  table.add({"erf", "plain", prepareThreaded<runUnary<Erf>>});
  table.add({"softplus", "plain", prepareThreaded<runUnary<Softplus>>});
  table.add({"relu", "plain", prepareThreaded<runUnary<Relu>>});
  table.add({"tanh", "plain", prepareThreaded<runUnary<Tanh>>});
  table.add({"sigmoid", "plain", prepareThreaded<runUnary<Sigmoid>>});
  table.add({"silu", "plain", prepareThreaded<runUnary<Silu>>});
  table.add({"gelu", "plain", prepareThreaded<runGelu>});
  table.add({"leaky_relu", "plain", prepareThreaded<runLeakyRelu>});
  table.add({"relu_grad", "plain", prepareThreaded<runGrad<ReluGrad>>});
  table.add({"tanh_grad", "plain", prepareThreaded<runGrad<TanhGrad>>});
  table.add({"sigmoid_grad", "plain", prepareThreaded<runGrad<SigmoidGrad>>});
  table.add({"silu_grad", "plain", prepareThreaded<runGrad<SiluGrad>>});
  table.add({"gelu_grad", "plain", prepareThreaded<runGeluGrad>});
  table.add({"clamp_grad", "plain", prepareThreaded<runClampGrad>});
  table.add({"leaky_relu_grad", "plain", prepareThreaded<runLeakyReluGrad>});
}

} // namespace isthmus
