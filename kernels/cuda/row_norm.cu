// Layer norm, group norm and RMS norm as one kernel: it normalises contiguous rows, and an
// element's position determines its scale and bias.

#include "kernels/cuda/norm.h"
#include "kernels/cuda/register.h"

namespace isthmus::cuda {
namespace {

// Rows of `channels` times `inner` elements. Each of `groups` consecutive rows has scales of its
// own, one per channel. Layer norm has one group, and a channel for each element.
struct Rows {
  int64_t rows, groups, channels, inner;
  Divisor byGroups, byInner;

  int64_t length() const { return channels * inner; }
  // The index of the scale of a row's first element, and another element's offset from it.
  ISTHMUS_GPU int64_t firstScale(int64_t row) const {
    int64_t group;
    byGroups(row, &group);
    return group * channels;
  }
  ISTHMUS_GPU int64_t channelOf(int64_t index) const {
    int64_t rest;
    return inner == 1 ? index : byInner(index, &rest);
  }
};

Rows rowsOf(const OpCall &call, size_t x) {
  const Type &type = call.operands[x];
  Rows r = {1, 1, 1, 1, {}, {}};
  if (call.op->attr("groups")) {
    r.groups = call.attrs->getInt("groups");
    r.rows = type.dims[0] * r.groups;
    r.channels = type.dims[1] / r.groups;
    for (int64_t d : llvm::makeArrayRef(type.dims).drop_front(2))
      r.inner *= d;
  } else {
    int64_t axis = call.attrs->getInt("axis");
    for (int64_t a = 0; a < type.rank(); ++a)
      (a < (axis < 0 ? axis + type.rank() : axis) ? r.rows : r.channels) *= type.dims[a];
  }
  r.byGroups = Divisor(r.groups);
  r.byInner = Divisor(r.inner);
  return r;
}
Division overRows(const Rows &r) {
  return Division(
      {r.rows, r.length()}, [](int64_t a) { return a == 1; }, Passes::More);
}
// A division that reduces the elements with the same scale.
Division overScales(const Rows &r) {
  return Division(
      {r.rows / std::max<int64_t>(1, r.groups), r.groups * r.channels, r.inner},
      [](int64_t a) { return a != 1; }, Passes::One);
}

// y may alias x.
template <typename T, typename P> struct RowNormOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  using State = Moments<C>;
  Rows rows;
  const T *x;
  const P *scale, *bias; // bias: null if none
  T *y;
  C *mean, *rstd; // mean: null if none
  C epsilon;

  ISTHMUS_GPU C rstdOf(State s) const { return C(1) / std::sqrt(s.variance() + epsilon); }
  ISTHMUS_GPU State start() const { return {}; }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return momentsOf<C>(elements, x, /*centred=*/mean != nullptr);
  }
  ISTHMUS_GPU void finish(int64_t out, State s) const {
    if (mean)
      mean[out] = s.mean;
    rstd[out] = rstdOf(s);
  }
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t out, State s) const {
    C m = s.mean, r = rstdOf(s);
    int64_t first = rows.firstScale(out);
    elements.write(y, [&](int64_t at, int64_t index) {
      int64_t k = first + rows.channelOf(index);
      C v = (C(x[at]) - m) * r * C(scale[k]);
      return T(bias ? v + C(bias[k]) : v);
    });
  }
};

// dx = rstd (g scale - sumG / count - (x - mean) sumGX / count)
// sumG and sumGX are sums over the row of g scale and of g scale (x - mean), the latter times
// rstd^2. Without a mean sumG is omitted. dx may alias g or x.
template <typename T, typename P> struct RowNormGradOp {
  static constexpr bool kWrites = true;
  using C = Compute<T>;
  using State = GradSums<C>;
  Rows rows;
  const T *g, *x;
  const P *scale;
  const C *mean, *rstd; // mean: null if none
  T *dx;
  C count;

  ISTHMUS_GPU C meanOf(int64_t out) const { return mean ? mean[out] : C(0); }
  ISTHMUS_GPU State start() const { return {}; }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t out) const {
    C m = meanOf(out);
    int64_t first = rows.firstScale(out);
    return gradSumsOf<C>(elements, [&](int64_t at, int64_t index) {
      C up = C(g[at]) * C(scale[first + rows.channelOf(index)]);
      return State{up, up * (C(x[at]) - m)};
    });
  }
  ISTHMUS_GPU void finish(int64_t, State) const {}
  template <typename E> ISTHMUS_GPU void apply(const E &elements, int64_t out, State s) const {
    C m = meanOf(out), r = rstd[out];
    C off = mean ? s.g / count : C(0), slope = s.gx * r * r / count;
    int64_t first = rows.firstScale(out);
    elements.write(dx, [&](int64_t at, int64_t index) {
      C up = C(g[at]) * C(scale[first + rows.channelOf(index)]);
      return T((up - off - (C(x[at]) - m) * slope) * r);
    });
  }
};

// The gradients of scale and bias: sums of g (x - mean) rstd, and of g.
template <typename T, typename P> struct ScaleGradOp {
  static constexpr bool kWrites = false;
  using C = Compute<T>;
  using State = GradSums<C>;
  Divisor byLength;
  const T *g, *x;
  const C *mean, *rstd;
  P *dScale, *dBias; // dBias: null if none

  ISTHMUS_GPU State start() const { return {}; }
  ISTHMUS_GPU State fold(State a, State b) const { return folded(a, b); }
  template <typename E> ISTHMUS_GPU State collect(const E &elements, int64_t) const {
    return gradSumsOf<C>(elements, [&](int64_t at, int64_t) {
      int64_t rest, row = byLength(at, &rest);
      C off = mean ? C(x[at]) - mean[row] : C(x[at]);
      return State{C(g[at]), C(g[at]) * (off * rstd[row])};
    });
  }
  ISTHMUS_GPU void finish(int64_t out, State s) const {
    dScale[out] = converted<P>(s.gx);
    if (dBias)
      dBias[out] = converted<P>(s.g);
  }
};

// --- The calls. RMS norm has neither means nor a bias.

bool hasMean(const OpCall &call) { return call.op->name.find("rms") == std::string::npos; }

struct Forward {
  template <typename T, typename P> static void run(const Launch &l) {
    using C = Compute<T>;
    bool centred = hasMean(l.call), bias = l.call.operands.size() > 2;
    Rows rows = rowsOf(l.call, 0);
    reduceBy(l.queue, overRows(rows),
             RowNormOp<T, P>{rows, l.operand<T>(0), l.operand<P>(1),
                             bias ? l.operand<P>(2) : nullptr, l.result<T>(0),
                             centred ? l.result<C>(1) : nullptr, l.result<C>(centred ? 2 : 1),
                             C(l.call.attrs->getFloat("epsilon"))},
             l.args.workspace);
  }
  static int64_t workspace(const OpCall &call) {
    return overRows(rowsOf(call, 0)).workspaceBytes(sizeof(Moments<double>));
  }
};

struct Backward {
  template <typename T, typename P> static void run(const Launch &l) {
    using C = Compute<T>;
    bool centred = hasMean(l.call);
    Rows rows = rowsOf(l.call, 1);
    const T *g = l.operand<T>(0), *x = l.operand<T>(1);
    const C *mean = centred ? l.operand<C>(3) : nullptr, *rstd = l.operand<C>(centred ? 4 : 3);
    // The sums over all of g and x come first, because dx may alias either.
    reduceBy(l.queue, overScales(rows),
             ScaleGradOp<T, P>{Divisor(rows.length()), g, x, mean, rstd, l.result<P>(1),
                               centred ? l.result<P>(2) : nullptr},
             l.args.workspace);
    reduceBy(l.queue, overRows(rows),
             RowNormGradOp<T, P>{rows, g, x, l.operand<P>(2), mean, rstd, l.result<T>(0),
                                 C(std::max<int64_t>(1, rows.length()))},
             l.args.workspace);
  }
  static int64_t workspace(const OpCall &call) {
    Rows rows = rowsOf(call, 1);
    return std::max(overRows(rows).workspaceBytes(sizeof(GradSums<double>)),
                    overScales(rows).workspaceBytes(sizeof(GradSums<double>)));
  }
};

} // namespace

void registerRowNorm(KernelTable &table) {
  auto forward = prepareGrid<runNorm<Forward, 0>, Forward::workspace>;
  auto backward = prepareGrid<runNorm<Backward, 1>, Backward::workspace>;
  table.add({"layer_norm", "cuda", forward});
  table.add({"layer_norm_grad", "cuda", backward});
  table.add({"group_norm", "cuda", forward});
  table.add({"group_norm_grad", "cuda", backward});
  table.add({"rms_norm", "cuda", forward});
  table.add({"rms_norm_grad", "cuda", backward});
}

} // namespace isthmus::cuda
