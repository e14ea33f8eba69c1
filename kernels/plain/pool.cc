// Pooling, one plane (a channel of an image) at a time.

#include "kernels/element/pool.h"
#include "kernels/plain/by_type.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

struct Pool : PoolShape {
  PoolAxis<int64_t> axes[3];

  Pool(const OpCall &call, const Type &y, const Type &x)
      : PoolShape(*call.attrs, y, x), axes{axis<int64_t>(0), axis<int64_t>(1), axis<int64_t>(2)} {}

  // Calls f(index of the first result, od, oh, from, to) for pieces [from, to) of all result rows
  // of a plane.
  static constexpr int64_t kPiece = 256;
  template <typename F> void forEachPiece(F f) const {
    for (int64_t od = 0; od < out[0]; ++od)
      for (int64_t oh = 0; oh < out[1]; ++oh)
        for (int64_t from = 0; from < out[2]; from += kPiece)
          f((od * out[1] + oh) * out[2] + from, od, oh, from, std::min(from + kPiece, out[2]));
  }

  // Calls f(input position, step, count, begin) for each tap, in row-major order, on a piece of a
  // row: the `count` results from index `begin` of the piece on read the input from that position
  // in steps of `step`.
  template <typename F>
  void forEachTap(int64_t od, int64_t oh, int64_t from, int64_t to, F f) const {
    for (int64_t kd = 0; kd < kernel[0]; ++kd)
      for (int64_t kh = 0; kh < kernel[1]; ++kh) {
        int64_t d = position(0, od, kd), h = position(1, oh, kh);
        if (d < 0 || d >= in[0] || h < 0 || h >= in[1])
          continue;
        for (int64_t kw = 0; kw < kernel[2]; ++kw) {
          auto [low, high] = places(2, kw);
          low = std::max(low, from);
          int64_t n = std::min(high, to) - low;
          if (n > 0)
            f((d * in[1] + h) * in[2] + position(2, low, kw), stride[2], n, low - from);
        }
      }
  }

  template <typename F> void forEachPlane(F f) const {
    parallelFor(planes(), std::max<int64_t>(1, kGrain / std::max<int64_t>(1, inPlane())),
                [&](int64_t begin, int64_t end) {
                  vectorised([&] {
                    for (int64_t n = begin; n < end; ++n)
                      f(n);
                  });
                });
  }
};

// The first maximum of each window of a piece, and its index in the plane. NaN is the largest
// value, and of several the last one counts, as in PyTorch. The index is -1 if the window has no
// element.
template <typename T> struct Maxima {
  Compute<T> value[Pool::kPiece];
  int64_t index[Pool::kPiece];

  void find(const Pool &p, const T *x, int64_t od, int64_t oh, int64_t from, int64_t to) {
    using Limits = std::numeric_limits<Compute<T>>;
    std::fill(value, value + (to - from), kIsFloat<T> ? -Limits::infinity() : Limits::lowest());
    std::fill(index, index + (to - from), int64_t(-1));
    p.forEachTap(od, oh, from, to, [&](int64_t at, int64_t step, int64_t n, int64_t begin) {
      Compute<T> *most = value + begin;
      int64_t *where = index + begin;
      for (int64_t i = 0; i < n; ++i) {
        Compute<T> v = x[at + i * step];
        bool isMore = (v > most[i]) | (v != v) | (where[i] < 0);
        most[i] = isMore ? v : most[i];
        where[i] = isMore ? at + i * step : where[i];
      }
    });
  }
};

struct MaxPool {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[0]);
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    p.forEachPlane([&](int64_t n) {
      const T *from = x + n * p.inPlane();
      T *to = y + n * p.outPlane();
      p.forEachPiece([&](int64_t first, int64_t od, int64_t oh, int64_t begin, int64_t end) {
        Maxima<T> m;
        m.find(p, from, od, oh, begin, end);
        for (int64_t i = 0; i < end - begin; ++i)
          to[first + i] = T(m.value[i]);
      });
    });
  }
};

struct MaxPoolIndices {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[0]);
    bool columns = call.attrs->getBool("column_major");
    const T *x = operand<T>(args, 0);
    int64_t *y = result<int64_t>(args, 0);
    p.forEachPlane([&](int64_t n) {
      const T *from = x + n * p.inPlane();
      int64_t *to = y + n * p.outPlane();
      p.forEachPiece([&](int64_t first, int64_t od, int64_t oh, int64_t begin, int64_t end) {
        Maxima<T> m;
        m.find(p, from, od, oh, begin, end);
        for (int64_t i = 0; i < end - begin; ++i) {
          to[first + i] = n * p.inPlane();
          const int64_t at = m.index[i];
          if (at < 0) // the plane may be empty
            continue;
          int64_t w = at % p.in[2], rest = at / p.in[2], h = rest % p.in[1], d = rest / p.in[1];
          to[first + i] += columns ? d + p.in[0] * (h + p.in[1] * w) : at;
        }
      });
    });
  }
};

struct MaxPoolGrad {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.operands[0], call.operands[1]);
    const T *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    T *dx = result<T>(args, 0);
    p.forEachPlane([&](int64_t n) {
      const T *image = x + n * p.inPlane(), *up = g + n * p.outPlane();
      T *to = dx + n * p.inPlane();
      std::fill(to, to + p.inPlane(), T(0));
      p.forEachPiece([&](int64_t first, int64_t od, int64_t oh, int64_t begin, int64_t end) {
        Maxima<T> m;
        m.find(p, image, od, oh, begin, end);
        for (int64_t i = 0; i < end - begin; ++i)
          if (int64_t at = m.index[i]; at >= 0)
            to[at] = T(Compute<T>(to[at]) + Compute<T>(up[first + i]));
      });
    });
  }
};

struct MaxPoolTake {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[1]);
    const T *v = operand<T>(args, 0), *x = operand<T>(args, 1);
    T *y = result<T>(args, 0);
    p.forEachPlane([&](int64_t n) {
      const T *image = x + n * p.inPlane(), *from = v + n * p.inPlane();
      T *to = y + n * p.outPlane();
      p.forEachPiece([&](int64_t first, int64_t od, int64_t oh, int64_t begin, int64_t end) {
        Maxima<T> m;
        m.find(p, image, od, oh, begin, end);
        for (int64_t i = 0; i < end - begin; ++i)
          to[first + i] = m.index[i] < 0 ? T(0) : from[m.index[i]];
      });
    });
  }
};

// The divisor of each window's sum.
struct Counts {
  const Pool &p;
  bool padding;
  int64_t divisor;

  Counts(const Pool &p, const Attrs &attrs)
      : p(p), padding(attrs.getBool("count_include_pad")), divisor(attrs.getInt("divisor")) {}

  // The number of elements that a window counts along an axis.
  int64_t along(int axis, int64_t o) const { return p.axes[axis].counted(o, padding); }
  double scale(int64_t rows, int64_t ow) const { // rows: the counts along the other two axes
    return 1.0 / double(divisor ? divisor : std::max<int64_t>(1, rows * along(2, ow)));
  }
};

struct AvgPool {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.results[0], call.operands[0]);
    const Counts counts(p, *call.attrs);
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    p.forEachPlane([&](int64_t n) {
      const T *from = x + n * p.inPlane();
      T *to = y + n * p.outPlane();
      p.forEachPiece([&](int64_t first, int64_t od, int64_t oh, int64_t begin, int64_t end) {
        double sums[Pool::kPiece] = {};
        p.forEachTap(od, oh, begin, end, [&](int64_t at, int64_t step, int64_t count, int64_t to) {
          for (int64_t i = 0; i < count; ++i)
            sums[to + i] += double(from[at + i * step]);
        });
        int64_t rows = counts.along(0, od) * counts.along(1, oh);
        for (int64_t i = 0; i < end - begin; ++i)
          to[first + i] = converted<T>(sums[i] * counts.scale(rows, begin + i));
      });
    });
  }
};

// Each row of dx gathers, a piece at a time, from the rows of g whose windows contain it. So sums
// are in double, and no two threads share one.
struct AvgPoolGrad {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Pool p(call, call.operands[0], call.results[0]);
    const Counts counts(p, *call.attrs);
    const T *g = operand<T>(args, 0);
    T *dx = result<T>(args, 0);
    p.forEachPlane([&](int64_t n) {
      const T *from = g + n * p.outPlane();
      T *to = dx + n * p.inPlane();
      for (int64_t d = 0; d < p.in[0]; ++d)
        for (int64_t h = 0; h < p.in[1]; ++h, to += p.in[2])
          for (int64_t begin = 0; begin < p.in[2]; begin += Pool::kPiece)
            gather(p, counts, from, d, h, begin, std::min(begin + Pool::kPiece, p.in[2]), to);
    });
  }

  template <typename T>
  static void gather(const Pool &p, const Counts &counts, const T *from, int64_t d, int64_t h,
                     int64_t begin, int64_t end, T *to) {
    auto overD = p.axes[0].windowsOver(d, d + 1), overH = p.axes[1].windowsOver(h, h + 1),
         overW = p.axes[2].windowsOver(begin, end);
    double sums[Pool::kPiece] = {};
    for (int64_t od = overD.low; od < overD.high; ++od)
      for (int64_t oh = overH.low; oh < overH.high; ++oh) {
        if (!p.axes[0].holds(od, d) || !p.axes[1].holds(oh, h))
          continue;
        int64_t rows = counts.along(0, od) * counts.along(1, oh);
        const T *row = from + (od * p.out[1] + oh) * p.out[2];
        for (int64_t ow = overW.low; ow < overW.high; ++ow) {
          double share = double(row[ow]) * counts.scale(rows, ow);
          int64_t start = ow * p.stride[2] - p.pad[2], apart = p.dilation[2];
          int64_t skipped = start >= begin ? 0 : (begin - start + apart - 1) / apart;
          int64_t last = std::min(start + (p.kernel[2] - 1) * apart + 1, end);
          for (int64_t w = start + skipped * apart; w < last; w += apart)
            sums[w - begin] += share;
        }
      }
    for (int64_t w = begin; w < end; ++w)
      to[w] = converted<T>(sums[w - begin]);
  }
};

// For ops that take integers too.
template <typename K> void runNumber(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.operands[0].dtype,
                 [&](auto tag) { K::template run<typename decltype(tag)::type>(call, args); });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainPool(KernelTable &table) {
  using namespace plain;
  table.add({"max_pool", "plain", prepareThreaded<runNumber<MaxPool>>});
  table.add({"max_pool_indices", "plain", prepareThreaded<runNumber<MaxPoolIndices>>});
  table.add({"max_pool_grad", "plain", prepareThreaded<runFloat<MaxPoolGrad>>});
  table.add({"max_pool_take", "plain", prepareThreaded<runFloat<MaxPoolTake>>});
  table.add({"avg_pool", "plain", prepareThreaded<runFloat<AvgPool>>});
  table.add({"avg_pool_grad", "plain", prepareThreaded<runFloat<AvgPoolGrad>>});
}

} // namespace isthmus
