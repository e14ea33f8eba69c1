// Attention, one row of scores at a time.

#include "kernels/element/attention.h"
#include "kernels/element/functions.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"
#include "kernels/plain/sums.h"

namespace isthmus::plain {
namespace {

template <typename T> double dot(const T *a, const T *b, int64_t n) {
  LaneSum sum;
  sum.addRow(n, [&](int64_t i) { return double(a[i]) * double(b[i]); });
  return sum.total();
}
// to += by * from
template <typename C, typename T> void addScaled(C *to, C by, const T *from, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    to[i] += by * C(from[i]);
}

// The operands of one head.
template <typename T> struct Head {
  using C = Compute<T>;
  const AttentionShape &s;
  const T *q, *k, *v, *mask;

  Head(const AttentionShape &s, const KernelArgs &args, size_t first, int64_t head)
      : s(s), q(operand<T>(args, first) + head * s.queries * s.depth),
        k(operand<T>(args, first + 1) + head * s.keys * s.depth),
        v(operand<T>(args, first + 2) + head * s.keys * s.width),
        mask(s.isMasked() ? operand<T>(args, s.maskOperand()) + s.maskOf(head) : nullptr) {}

  // Computes row i of the scores. Returns the number of keys that the row sees.
  int64_t scores(int64_t i, C *to) const {
    int64_t seen = s.seenBefore(i + 1);
    for (int64_t j = 0; j < seen; ++j) {
      double score = s.scale * dot(q + i * s.depth, k + j * s.depth, s.depth);
      to[j] = C(mask ? score + double(mask[i * s.maskRow() + j * s.maskColumn()]) : score);
    }
    return seen;
  }
};

template <typename T> struct Forward {
  using C = Compute<T>;
  static int64_t rows(const AttentionShape &) { return 1; }
  static int64_t scratch(const AttentionShape &s) { return s.keys + s.width; }

  static void run(const AttentionShape &s, const KernelArgs &args, int64_t index, C *scratch) {
    int64_t h = index / s.queries, i = index % s.queries;
    Head<T> head(s, args, 0, h);
    C *weights = scratch, *sums = scratch + s.keys;
    int64_t seen = head.scores(i, weights);
    C most = -std::numeric_limits<C>::infinity();
    for (int64_t j = 0; j < seen; ++j) // NaN may be missed here; the sum is NaN anyway
      most = std::max(most, weights[j]);
    if (!std::isfinite(most))
      most = 0;
    for (int64_t j = 0; j < seen; ++j)
      weights[j] = expOf(weights[j] - most);
    LaneSum total;
    total.addRow(seen, [&](int64_t j) { return double(weights[j]); });
    result<C>(args, 1)[index] = C(std::log(total.total()) + double(most));
    std::fill_n(sums, s.width, C(0));
    const C factor = C(factorOf(total.total()));
    for (int64_t j = 0; j < seen; ++j)
      addScaled(sums, weights[j] * factor, head.v + j * s.width, s.width);
    for (int64_t e = 0; e < s.width; ++e)
      result<T>(args, 0)[index * s.width + e] = T(sums[e]);
  }
};

template <typename T> struct Backward {
  using C = Compute<T>;
  static int64_t rows(const AttentionShape &s) { return s.queries; }
  static int64_t scratch(const AttentionShape &s) {
    return s.keys + s.depth + s.keys * (s.depth + s.width);
  }

  // A task is a whole head, because its rows are added to the gradients of keys and values one by
  // one.
  static void run(const AttentionShape &s, const KernelArgs &args, int64_t h, C *scratch) {
    Head<T> head(s, args, 1, h);
    C *scores = scratch, *dq = scores + s.keys, *dk = dq + s.depth, *dv = dk + s.keys * s.depth;
    std::fill_n(dk, s.keys * (s.depth + s.width), C(0));
    for (int64_t i = 0; i < s.queries; ++i) {
      const int64_t row = h * s.queries + i;
      const T *g = operand<T>(args, 0) + row * s.width, *y = operand<T>(args, 4) + row * s.width;
      const C base = baseOf(operand<C>(args, 5)[row]);
      const double gy = dot(g, y, s.width);
      const T *q = head.q + i * s.depth;
      int64_t seen = head.scores(i, scores);
      std::fill_n(dq, s.depth, C(0));
      for (int64_t j = 0; j < seen; ++j) {
        C weight = expOf(scores[j] - base);
        C slope = weight * C(s.scale * (dot(g, head.v + j * s.width, s.width) - gy));
        addScaled(dq, slope, head.k + j * s.depth, s.depth);
        addScaled(dk + j * s.depth, slope, q, s.depth);
        addScaled(dv + j * s.width, weight, g, s.width);
      }
      for (int64_t e = 0; e < s.depth; ++e)
        result<T>(args, 0)[row * s.depth + e] = T(dq[e]);
    }
    for (int64_t e = 0; e < s.keys * s.depth; ++e)
      result<T>(args, 1)[h * s.keys * s.depth + e] = T(dk[e]);
    for (int64_t e = 0; e < s.keys * s.width; ++e)
      result<T>(args, 2)[h * s.keys * s.width + e] = T(dv[e]);
  }
};

template <template <typename> typename Work> class Attention : public PreparedKernel {
public:
  Attention(const OpCall &call, int64_t tasks, int threads)
      : shape_(call), type_(call.operands[0].dtype), tasks_(tasks), threads_(threads) {}

  int64_t workspaceBytes() const override {
    return threads_ * Work<double>::scratch(shape_) * int64_t(sizeof(double));
  }
  void run(const KernelArgs &args) override {
    dispatchFloat(type_, [&](auto tag) {
      using T = typename decltype(tag)::type;
      using W = Work<T>;
      int64_t each = W::rows(shape_) * shape_.keys * (shape_.depth + shape_.width);
      parallelFor(tasks_, kGrain / (each + 1) + 1, [&](int64_t begin, int64_t end) {
        auto *scratch =
            static_cast<Compute<T> *>(args.workspace) + omp_get_thread_num() * W::scratch(shape_);
        vectorised([&] {
          for (int64_t i = begin; i < end; ++i)
            W::run(shape_, args, i, scratch);
        });
      });
    });
  }

private:
  AttentionShape shape_;
  DType type_;
  int64_t tasks_;
  int threads_;
};

std::unique_ptr<PreparedKernel> prepareForward(const OpCall &call, const KernelOptions &options) {
  AttentionShape s(call);
  return std::make_unique<ThreadedKernel>(
      std::make_unique<Attention<Forward>>(call, s.heads * s.queries, options.threads),
      options.threads);
}
std::unique_ptr<PreparedKernel> prepareBackward(const OpCall &call, const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(
      std::make_unique<Attention<Backward>>(call, AttentionShape(call).heads, options.threads),
      options.threads);
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainAttention(KernelTable &table) {
  table.add({"attention", "plain", plain::prepareForward});
  table.add({"attention_grad", "plain", plain::prepareBackward});
}

} // namespace isthmus
