// Elementwise ops. A function object says what becomes of one element; the loops around it are
// shared.

#include "kernels/plain/dispatch.h"
#include "kernels/plain/math.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Results may lie over operands of the same size, element on element: no iteration reads what
// another wrote, which is what `ivdep` says.

template <typename In, typename Out, typename F>
void mapOne(const OpCall &call, const KernelArgs &args, F f) {
  const In *x = operand<In>(args, 0);
  Out *y = result<Out>(args, 0);
  parallelFor(call.results[0].elements(), kGrain, [&](int64_t begin, int64_t end) {
    vectorisedFor<In>([=] {
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i)
        y[i] = static_cast<Out>(f(static_cast<Compute<In>>(x[i])));
    });
  });
}

// A row of a binary op; an operand that does not step is the same all along it.
template <typename In, typename Out, typename F>
void pairRow(const In *a, bool stepA, const In *b, bool stepB, Out *y, int64_t n, F f) {
  using C = Compute<In>;
  if constexpr (!kIsFloat<In>) { // one loop for all: integer tensors are small
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<Out>(f(a[stepA ? i : 0], b[stepB ? i : 0]));
  } else if (stepA && stepB) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<Out>(f(C(a[i]), C(b[i])));
  } else if (stepA) {
    C second = C(*b);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<Out>(f(C(a[i]), second));
  } else {
    C first = C(*a);
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = static_cast<Out>(f(first, C(b[stepB ? i : 0])));
  }
}

template <typename In, typename Out, typename F>
void mapTwo(const OpCall &call, const KernelArgs &args, F f) {
  const In *a = operand<In>(args, 0), *b = operand<In>(args, 1);
  Out *y = result<Out>(args, 0);
  const Dims &dims = call.results[0].dims;
  Walk<3> walk(dims, {broadcastStrides(call.operands[0].dims, dims),
                      broadcastStrides(call.operands[1].dims, dims), denseStrides(dims)});
  bool stepA = walk.rowStride(0) != 0, stepB = walk.rowStride(1) != 0;
  parallelFor(walk.elements(), kGrain, [&](int64_t begin, int64_t end) {
    walk.forEachRow(begin, end, [&](const std::array<int64_t, 3> &at, int64_t n) {
      vectorisedFor<In>([=] { pairRow(a + at[0], stepA, b + at[1], stepB, y + at[2], n, f); });
    });
  });
}

// --- Arithmetic. Integers wrap round; a quotient by zero is zero.

template <typename T> T wrapped(std::make_unsigned_t<T> v) { return static_cast<T>(v); }

struct Add {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return wrapped<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
    else
      return a + b;
  }
};
struct Sub {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return wrapped<T>(std::make_unsigned_t<T>(a) - std::make_unsigned_t<T>(b));
    else
      return a - b;
  }
};
struct Mul {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return wrapped<T>(std::make_unsigned_t<T>(a) * std::make_unsigned_t<T>(b));
    else
      return a * b;
  }
};
struct Div {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0)
        return 0;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) // the least number's quotient does not fit
          return Sub()(T(0), a);
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Pow {
  template <typename T> T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if constexpr (std::is_signed_v<T>)
        if (b < 0)
          return a == 1 ? 1 : a == T(-1) ? (b % 2 ? -1 : 1) : 0;
      T power = 1;
      for (; b > 0; b /= 2, a = Mul()(a, a))
        if (b % 2)
          power = Mul()(power, a);
      return power;
    } else {
      return std::pow(a, b);
    }
  }
};
struct Maximum {
  template <typename T> T operator()(T a, T b) const { return a >= b || a != a ? a : b; }
};
struct Minimum {
  template <typename T> T operator()(T a, T b) const { return a <= b || a != a ? a : b; }
};

template <typename F> void runArithmetic(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, F());
  });
}

// --- Comparison and logic

struct Equal {
  template <typename T> bool operator()(T a, T b) const { return a == b; }
};
struct Less {
  template <typename T> bool operator()(T a, T b) const { return a < b; }
};
struct LessEqual {
  template <typename T> bool operator()(T a, T b) const { return a <= b; }
};
struct Greater {
  template <typename T> bool operator()(T a, T b) const { return a > b; }
};
struct GreaterEqual {
  template <typename T> bool operator()(T a, T b) const { return a >= b; }
};
struct And {
  bool operator()(bool a, bool b) const { return a & b; }
};
struct Or {
  bool operator()(bool a, bool b) const { return a | b; }
};

template <typename F> void runCompare(const OpCall &call, const KernelArgs &args) {
  dispatchAny(call.operands[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, bool>(call, args, F());
  });
}
template <typename F> void runLogic(const OpCall &call, const KernelArgs &args) {
  mapTwo<bool, bool>(call, args, F());
}
void runNot(const OpCall &call, const KernelArgs &args) {
  mapOne<bool, bool>(call, args, [](bool x) { return !x; });
}

template <typename T>
void whereRow(const bool *c, bool stepC, const T *a, bool stepA, const T *b, bool stepB, T *y,
              int64_t n) {
  T firstA = *a, firstB = *b; // read before anything is written over them
  if (stepC && stepA && stepB) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = c[i] ? a[i] : b[i];
  } else if (stepC && stepA) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = c[i] ? a[i] : firstB;
  } else if (stepC && stepB) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i)
      y[i] = c[i] ? firstA : b[i];
  } else {
    for (int64_t i = 0; i < n; ++i)
      y[i] = c[stepC ? i : 0] ? a[stepA ? i : 0] : b[stepB ? i : 0];
  }
}

void runWhere(const OpCall &call, const KernelArgs &args) {
  const Dims &dims = call.results[0].dims;
  auto strides = [&](size_t i) { return broadcastStrides(call.operands[i].dims, dims); };
  Walk<4> walk(dims, {strides(0), strides(1), strides(2), denseStrides(dims)});
  bool stepC = walk.rowStride(0) != 0, stepA = walk.rowStride(1) != 0,
       stepB = walk.rowStride(2) != 0;
  dispatchSize(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const bool *c = operand<bool>(args, 0);
    const T *a = operand<T>(args, 1), *b = operand<T>(args, 2);
    T *y = result<T>(args, 0);
    parallelFor(walk.elements(), kGrain, [&](int64_t begin, int64_t end) {
      walk.forEachRow(begin, end, [&](const std::array<int64_t, 4> &at, int64_t n) {
        vectorised(
            [=] { whereRow(c + at[0], stepC, a + at[1], stepA, b + at[2], stepB, y + at[3], n); });
      });
    });
  });
}

void runCast(const OpCall &call, const KernelArgs &args) {
  dispatchAny(call.operands[0].dtype, [&](auto fromTag) {
    dispatchAny(call.results[0].dtype, [&](auto toTag) {
      using From = typename decltype(fromTag)::type;
      using To = typename decltype(toTag)::type;
      const From *x = operand<From>(args, 0);
      To *y = result<To>(args, 0);
      parallelFor(call.results[0].elements(), kGrain, [&](int64_t begin, int64_t end) {
        auto loop = [=] {
          for (int64_t i = begin; i < end; ++i)
            y[i] = converted<To>(static_cast<Compute<From>>(x[i]));
        };
        vectorisedFor<std::conditional_t<kIsFloat<From>, To, From>>(loop);
      });
    });
  });
}

// --- Functions of one float

template <typename F> void runUnary(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T, T>(call, args, F());
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
  template <typename T> T operator()(T x) const { return std::log(x); }
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
  template <typename T> T operator()(T x) const { return std::erf(x); }
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
    return T(0.5) * x * (T(1) + std::erf(x * T(M_SQRT1_2)));
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
    T cdf = T(0.5) * (T(1) + std::erf(x * T(M_SQRT1_2)));
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

// --- Ops with numbers among their attributes. Integers are computed in integers where the numbers
// are.

void runAffine(const OpCall &call, const KernelArgs &args) {
  double scale = call.attrs->getFloat("scale"), shift = call.attrs->getFloat("shift");
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (kIsFloat<T>) {
      using C = Compute<T>;
      mapOne<T, T>(call, args, [s = C(scale), t = C(shift)](C x) { return s * x + t; });
    } else if (double(converted<T>(scale)) == scale && double(converted<T>(shift)) == shift) {
      mapOne<T, T>(call, args, [s = converted<T>(scale), t = converted<T>(shift)](T x) {
        return Add()(Mul()(s, x), t);
      });
    } else {
      mapOne<T, T>(call, args, [=](T x) { return converted<T>(scale * double(x) + shift); });
    }
  });
}

void runClamp(const OpCall &call, const KernelArgs &args) {
  double min = call.attrs->getFloat("min"), max = call.attrs->getFloat("max");
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    // Integer bounds that lie between integers close in.
    C low = kIsFloat<T> ? C(min) : converted<C>(std::ceil(min));
    C high = kIsFloat<T> ? C(max) : converted<C>(std::floor(max));
    mapOne<T, T>(call, args, [=](C x) { return x < low ? low : x > high ? high : x; });
  });
}

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
    mapOne<T, T>(call, args, [a = C(alpha)](C x) { return x > 0 ? x : a * x; });
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

void registerPlainElementwise(KernelTable &table) {
  using namespace plain;
  table.add({"add", "plain", prepareThreaded<runArithmetic<Add>>});
  table.add({"sub", "plain", prepareThreaded<runArithmetic<Sub>>});
  table.add({"mul", "plain", prepareThreaded<runArithmetic<Mul>>});
  table.add({"div", "plain", prepareThreaded<runArithmetic<Div>>});
  table.add({"pow", "plain", prepareThreaded<runArithmetic<Pow>>});
  table.add({"maximum", "plain", prepareThreaded<runArithmetic<Maximum>>});
  table.add({"minimum", "plain", prepareThreaded<runArithmetic<Minimum>>});
  table.add({"equal", "plain", prepareThreaded<runCompare<Equal>>});
  table.add({"less", "plain", prepareThreaded<runCompare<Less>>});
  table.add({"less_equal", "plain", prepareThreaded<runCompare<LessEqual>>});
  table.add({"greater", "plain", prepareThreaded<runCompare<Greater>>});
  table.add({"greater_equal", "plain", prepareThreaded<runCompare<GreaterEqual>>});
  table.add({"and", "plain", prepareThreaded<runLogic<And>>});
  table.add({"or", "plain", prepareThreaded<runLogic<Or>>});
  table.add({"not", "plain", prepareThreaded<runNot>});
  table.add({"where", "plain", prepareThreaded<runWhere>});
  table.add({"cast", "plain", prepareThreaded<runCast>});
  table.add({"affine", "plain", prepareThreaded<runAffine>});
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
  table.add({"clamp", "plain", prepareThreaded<runClamp>});
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
