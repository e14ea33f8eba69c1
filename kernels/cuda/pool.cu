// Pooling. A worker (a thread, or for large windows a team) processes one window. The gradients
// gather: one thread for each element sums over the windows that contain it.

#include "kernels/cuda/planes.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/register.h"
#include "kernels/element/pool.h"

namespace isthmus::cuda {
namespace {

using Axis = PoolAxis<int32_t>;

// The elements of a window that lie inside the image.
struct Window {
  int32_t first[3], count[3], step[3]; // positions along the axes
  int32_t height, width;               // of the plane

  ISTHMUS_GPU int64_t size() const { return int64_t(count[0]) * count[1] * count[2]; }
  ISTHMUS_GPU int64_t at(int32_t d, int32_t h, int32_t w) const {
    return (int64_t(first[0] + d * step[0]) * height + (first[1] + h * step[1])) * width +
           (first[2] + w * step[2]);
  }
};

// Folds state = next(state, index in the plane) over a window; a single thread in row-major order.
template <typename State, typename Next, typename Fold>
ISTHMUS_GPU State overWindow(const Lone &, const Window &w, State s, Next next, Fold) {
  for (int32_t d = 0; d < w.count[0]; ++d)
    for (int32_t h = 0; h < w.count[1]; ++h)
      for (int32_t k = 0; k < w.count[2]; ++k)
        s = next(s, w.at(d, h, k));
  return s;
}
template <typename State, typename Next, typename Fold>
ISTHMUS_GPU State overWindow(const Team &team, const Window &w, State s, Next next, Fold fold) {
  return team.reduce(
      w.size(), s,
      [&](State s, int64_t i) {
        int64_t row = i / w.count[2];
        return next(
            s, w.at(int32_t(row / w.count[1]), int32_t(row % w.count[1]), int32_t(i % w.count[2])));
      },
      fold);
}

struct Pool {
  Axis axis[3];
  Planes outputs, inputs;
  int64_t outPlane, inPlane, count; // count: number of windows
  bool alone;                       // whether a window takes a single thread

  explicit Pool(const PoolShape &s)
      : axis{s.axis<int32_t>(0), s.axis<int32_t>(1), s.axis<int32_t>(2)}, outputs(s.out),
        inputs(s.in), outPlane(s.outPlane()), inPlane(s.inPlane()),
        count(s.planes() * s.outPlane()), alone(s.taps() < 64) {}

  ISTHMUS_GPU Window window(const int32_t (&o)[3]) const {
    Window w;
    for (int a = 0; a < 3; ++a) {
      Axis::Range taps = axis[a].taps(o[a]);
      w.first[a] = o[a] * axis[a].stride - axis[a].pad + taps.low * axis[a].dilation;
      w.count[a] = std::max(taps.high - taps.low, 0);
      w.step[a] = axis[a].dilation;
    }
    w.height = axis[1].in;
    w.width = axis[2].in;
    return w;
  }
  template <typename Body> void forEachWindow(const Queue &queue, Body body) const {
    int64_t taps = int64_t(axis[0].kernel) * axis[1].kernel * axis[2].kernel;
    forEachWorker(queue, alone, count, taps, body);
  }
};

PoolShape shapeOf(const OpCall &call) {
  llvm::StringRef op = call.op->name;
  const Attrs &attrs = *call.attrs;
  if (op == "avg_pool_grad")
    return PoolShape(attrs, call.operands[0], call.results[0]);
  if (op == "max_pool_grad")
    return PoolShape(attrs, call.operands[0], call.operands[1]);
  return PoolShape(attrs, call.results[0], call.operands[op == "max_pool_take" ? 1 : 0]);
}

// --- Maxima

// The first maximum of a window, and its index in the plane. NaN is the largest value, and of
// several the last one counts, as in PyTorch. The index is -1 if the window has no element.
template <typename C> struct Maximum {
  C value;
  int64_t at;
};
template <typename C> ISTHMUS_GPU Maximum<C> better(Maximum<C> a, Maximum<C> b) {
  if (a.at < 0 || b.at < 0)
    return a.at < 0 ? b : a;
  const bool isNaN = a.value != a.value, otherIsNaN = b.value != b.value;
  if (isNaN || otherIsNaN)
    return otherIsNaN && (!isNaN || b.at > a.at) ? b : a;
  return b.value > a.value || (b.value == a.value && b.at < a.at) ? b : a;
}

// Writes the maxima to every result that is not null.
template <typename T> struct MaximaBody {
  using C = Compute<T>;
  Pool p;
  const T *x, *v;
  T *y, *taken;     // the maximum; v at the maximum
  int64_t *indices; // indices into the whole of x
  bool columnMajor;
  int32_t *places; // indices into the plane

  template <typename Worker> ISTHMUS_GPU void operator()(int64_t t, const Worker &worker) const {
    int32_t o[3];
    int64_t plane = p.outputs.at(t, o);
    const T *from = x + plane * p.inPlane;
    Maximum<C> none{
        kIsFloat<T> ? -std::numeric_limits<C>::infinity() : std::numeric_limits<C>::lowest(), -1};
    Maximum<C> m = overWindow(
        worker, p.window(o), none,
        [&](Maximum<C> s, int64_t at) {
          return better(s, Maximum<C>{C(from[at]), at});
        },
        [](Maximum<C> a, Maximum<C> b) { return better(a, b); });
    if (!worker.isFirst())
      return;
    if (y)
      y[t] = T(m.value);
    if (taken)
      taken[t] = m.at < 0 ? T(C(0)) : v[plane * p.inPlane + m.at];
    if (places)
      places[t] = int32_t(m.at);
    if (indices)
      indices[t] =
          plane * p.inPlane + (columnMajor ? transposed(m.at) : std::max<int64_t>(m.at, 0));
  }
  ISTHMUS_GPU int64_t transposed(int64_t at) const {
    if (at < 0) // the plane may be empty
      return 0;
    int64_t d = p.axis[0].in, h = p.axis[1].in, w = p.axis[2].in, row = at / w;
    return row / h + d * (row % h + h * (at % w));
  }
};

struct MaxPool { // max_pool and max_pool_indices
  template <typename T> static void run(const Launch &l) {
    Pool p(shapeOf(l.call));
    MaximaBody<T> body{p, l.operand<T>(0), nullptr, nullptr, nullptr, nullptr, false, nullptr};
    if (l.call.op->name == "max_pool") {
      body.y = l.result<T>(0);
    } else {
      body.indices = l.result<int64_t>(0);
      body.columnMajor = l.call.attrs->getBool("column_major");
    }
    p.forEachWindow(l.queue, body);
  }
};
void runMaxPool(const Launch &l) { // takes integers too
  dispatchNumber(l.call.operands[0].dtype,
                 [&](auto tag) { MaxPool::run<typename decltype(tag)::type>(l); });
}

struct MaxPoolTake {
  template <typename T> static void run(const Launch &l) {
    Pool p(shapeOf(l.call));
    p.forEachWindow(l.queue, MaximaBody<T>{p, l.operand<T>(1), l.operand<T>(0), nullptr,
                                           l.result<T>(0), nullptr, false, nullptr});
  }
};

// --- Means

// The divisor of each window's sum.
struct Counts {
  bool padding;
  int64_t divisor;

  explicit Counts(const Attrs &attrs)
      : padding(attrs.getBool("count_include_pad")), divisor(attrs.getInt("divisor")) {}
  template <typename S> ISTHMUS_GPU S scale(const Pool &p, int32_t d, int32_t h, int32_t w) const {
    if (divisor)
      return S(1) / S(divisor);
    int64_t n = int64_t(p.axis[0].counted(d, padding)) * p.axis[1].counted(h, padding) *
                p.axis[2].counted(w, padding);
    return S(1) / S(std::max<int64_t>(1, n));
  }
};

template <typename T> struct AvgBody {
  using S = GpuSum<T>;
  Pool p;
  Counts counts;
  const T *x;
  T *y;

  template <typename Worker> ISTHMUS_GPU void operator()(int64_t t, const Worker &worker) const {
    int32_t o[3];
    const T *from = x + p.outputs.at(t, o) * p.inPlane;
    S sum = overWindow(
        worker, p.window(o), S(0), [&](S s, int64_t at) { return s + S(from[at]); }, Add());
    if (worker.isFirst())
      y[t] = converted<T>(sum * counts.scale<S>(p, o[0], o[1], o[2]));
  }
};

struct AvgPool {
  template <typename T> static void run(const Launch &l) {
    Pool p(shapeOf(l.call));
    p.forEachWindow(l.queue, AvgBody<T>{p, Counts(*l.call.attrs), l.operand<T>(0), l.result<T>(0)});
  }
};

// --- Gradients

// The sum of `each` over the windows whose extent covers an element.
template <typename S, typename Each>
ISTHMUS_GPU S gathered(const Pool &p, int64_t plane, const int32_t (&at)[3], Each each) {
  Axis::Range over[3];
  for (int a = 0; a < 3; ++a)
    over[a] = p.axis[a].windowsOver(at[a], at[a] + 1);
  S sum = 0;
  for (int32_t d = over[0].low; d < over[0].high; ++d)
    for (int32_t h = over[1].low; h < over[1].high; ++h)
      for (int32_t w = over[2].low; w < over[2].high; ++w)
        sum += each(plane * p.outPlane + (int64_t(d) * p.axis[1].out + h) * p.axis[2].out + w, d, h,
                    w);
  return sum;
}

template <typename T> struct MaxGradAt {
  using S = GpuSum<T>;
  Pool p;
  const T *g;
  const int32_t *places; // indices of the windows' maxima
  T *dx;

  ISTHMUS_GPU void operator()(int64_t i) const {
    int32_t at[3];
    int64_t plane = p.inputs.at(i, at), place = i - plane * p.inPlane;
    dx[i] = converted<T>(gathered<S>(p, plane, at, [&](int64_t window, int32_t, int32_t, int32_t) {
      return places[window] == place ? S(g[window]) : S(0);
    }));
  }
};

// First finds the maximum of each window, then gathers the gradient of each element.
struct MaxPoolGrad {
  template <typename T> static void run(const Launch &l) {
    PoolShape shape = shapeOf(l.call);
    Pool p(shape);
    int32_t *places = l.workspace<int32_t>();
    p.forEachWindow(l.queue, MaximaBody<T>{p, l.operand<T>(1), nullptr, nullptr, nullptr, nullptr,
                                           false, places});
    MaxGradAt<T> grad{p, l.operand<T>(0), places, l.result<T>(0)};
    forEach(l.queue, shape.planes() * p.inPlane, [=] ISTHMUS_GPU(int64_t i) { grad(i); });
  }
  static int64_t workspace(const OpCall &call) {
    return call.operands[0].elements() * int64_t(sizeof(int32_t));
  }
};

template <typename T> struct AvgGradAt {
  using S = GpuSum<T>;
  Pool p;
  Counts counts;
  const T *g;
  T *dx;

  ISTHMUS_GPU void operator()(int64_t i) const {
    int32_t at[3];
    int64_t plane = p.inputs.at(i, at);
    dx[i] = converted<T>(
        gathered<S>(p, plane, at, [&](int64_t window, int32_t d, int32_t h, int32_t w) {
          bool held =
              p.axis[0].holds(d, at[0]) && p.axis[1].holds(h, at[1]) && p.axis[2].holds(w, at[2]);
          return held ? S(g[window]) * counts.scale<S>(p, d, h, w) : S(0);
        }));
  }
};

struct AvgPoolGrad {
  template <typename T> static void run(const Launch &l) {
    PoolShape shape = shapeOf(l.call);
    Pool p(shape);
    AvgGradAt<T> grad{p, Counts(*l.call.attrs), l.operand<T>(0), l.result<T>(0)};
    forEach(l.queue, shape.planes() * p.inPlane, [=] ISTHMUS_GPU(int64_t i) { grad(i); });
  }
};

// Positions, and indices into a plane, have 32 bits.
template <GridFunction run, WorkspaceFunction workspace = nullptr>
std::unique_ptr<PreparedKernel> preparePool(const OpCall &call, const KernelOptions &options) {
  PoolShape s = shapeOf(call);
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  bool fits = s.inPlane() <= kMost;
  for (int a = 0; a < 3; ++a)
    fits = fits && s.in[a] + s.pad[a] + s.padHigh[a] + s.kernel[a] * s.dilation[a] + s.stride[a] <=
                       kMost / 2;
  return fits ? prepareGrid<run, workspace>(call, options) : nullptr;
}

} // namespace

void registerPool(KernelTable &table) {
  table.add({"max_pool", "cuda", preparePool<runMaxPool>});
  table.add({"max_pool_indices", "cuda", preparePool<runMaxPool>});
  table.add(
      {"max_pool_grad", "cuda", preparePool<runByOperand<MaxPoolGrad>, MaxPoolGrad::workspace>});
  table.add({"max_pool_take", "cuda", preparePool<runByOperand<MaxPoolTake>>});
  table.add({"avg_pool", "cuda", preparePool<runByOperand<AvgPool>>});
  table.add({"avg_pool_grad", "cuda", preparePool<runByOperand<AvgPoolGrad>>});
}

} // namespace isthmus::cuda
