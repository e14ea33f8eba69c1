// Attention on f32 by matrix products, on chunks of a head's query rows, so that a chunk's scores
// stay in a cache. The backward pass recomputes a chunk's weights from its scores and lse. The
// chunks of a head are added to the gradients of keys and values one after another.
//
// Chunks depend on the shape alone, so results have the same bits in every run and for any number
// of threads. If there are enough tasks for all threads, each thread computes its own tasks;
// otherwise all threads share every product.

#include "kernels/element/attention.h"
#include "kernels/element/functions.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/register.h"
#include "kernels/gemm/tasks.h"
#include "kernels/plain/parallel.h"
#include "kernels/plain/sums.h"
#include <cstring>

namespace isthmus::gemm {
namespace {

using element::AttentionShape;
using plain::vectorised;

constexpr int64_t kMostScores = 1 << 18; // per chunk: one megabyte
constexpr int64_t kRowStep = 12;         // a multiple of the register tiles' rows
// With a causal mask, smaller chunks waste fewer products on keys that are not seen.
constexpr int64_t kMostCausalRows = 120;

int64_t chunkRows(const AttentionShape &s) {
  int64_t rows = std::max(kMostScores / s.keys / kRowStep, int64_t(2)) * kRowStep;
  return std::min(s.causal ? std::min(rows, kMostCausalRows) : rows, s.queries);
}

// A chunk of a head: query rows [begin, begin + rows), and the number of keys that any of them
// sees.
struct Chunk {
  int64_t begin, rows, seen;
};

class Attention : public PreparedKernel {
public:
  Attention(const OpCall &call, int threads, int64_t tasks)
      : shape_(call), rows_(chunkRows(shape_)), threads_(threads), tasks_(tasks),
        teams_(tasks >= threads ? threads : 1) {}

  int64_t workspaceBytes() const override { return teams_ * floats() * int64_t(sizeof(float)); }

  void run(const KernelArgs &args) override {
    forEachTask(tasks_, teams_, threads_, static_cast<float *>(args.workspace), floats(),
                [&](int64_t task, float *workspace, int threads) {
                  compute(args, task, workspace, threads);
                });
  }

protected:
  virtual int64_t floats() const = 0; // workspace of one task
  virtual void compute(const KernelArgs &args, int64_t task, float *workspace,
                       int threads) const = 0;

  int64_t chunks() const { return (shape_.queries + rows_ - 1) / rows_; }
  Chunk chunk(int64_t index) const {
    int64_t begin = index * rows_, end = std::min(begin + rows_, shape_.queries);
    return {begin, end - begin, shape_.seenBefore(end)};
  }
  int64_t scoreFloats() const { return rounded64(rows_ * shape_.keys); }
  int64_t rowFloats() const { return rounded64(rows_); }

  // Calls body(row) for the rows of a chunk.
  template <typename Body> static void forEachRow(const Chunk &c, int threads, Body body) {
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < c.rows; ++r)
      vectorised([&] { body(r); });
  }
  // The chunk's rows in x, a tensor of `width` columns.
  float *rowsOf(void *x, int64_t head, const Chunk &c, int64_t width) const {
    return static_cast<float *>(x) + (head * shape_.queries + c.begin) * width;
  }
  const float *rowsOf(const void *x, int64_t head, const Chunk &c, int64_t width) const {
    return static_cast<const float *>(x) + (head * shape_.queries + c.begin) * width;
  }

  // to [rows, seen] = x y^T, for the chunk's rows of x and the first `seen` rows of y, both of
  // `inner` columns.
  static void multiplyTransposed(const Chunk &c, const float *x, const float *y, int64_t inner,
                                 float *to, float *packed, int threads) {
    multiply({c.rows, c.seen, inner}, {x, inner, 1}, {y, 1, inner}, {to, c.seen}, packed, threads);
  }
  // to [rows, columns] = x y for x [rows, seen].
  static void multiplyRows(const Chunk &c, const float *x, const float *y, int64_t columns,
                           float *to, float *packed, int threads) {
    multiply({c.rows, columns, c.seen}, {x, c.seen, 1}, {y, columns, 1}, {to, columns}, packed,
             threads);
  }
  // to [seen, columns] += x^T y for x [rows, seen].
  static void addColumns(const Chunk &c, const float *x, const float *y, int64_t columns, float *to,
                         float *packed, int threads) {
    multiply({c.seen, columns, c.rows}, {x, 1, c.seen}, {y, columns, 1}, {to, columns, 0, true},
             packed, threads);
  }
  // The largest packing buffers of these products.
  int64_t packedRows(int64_t columns) const {
    return std::max(packedFloats({rows_, shape_.keys, columns}),
                    packedFloats({rows_, columns, shape_.keys}));
  }
  int64_t packedColumns(int64_t columns) const {
    return packedFloats({shape_.keys, columns, rows_});
  }

  // Scales and masks row r of a chunk's products, which makes them scores. `mask` is null or the
  // head's mask. Returns the number of keys that the row sees; the elements after them are
  // unchanged.
  int64_t toScores(const Chunk &c, int64_t r, const float *mask, float *row) const {
    const int64_t seen = shape_.seenBefore(c.begin + r + 1);
    const float scale = float(shape_.scale);
    if (!mask) {
      for (int64_t j = 0; j < seen; ++j)
        row[j] *= scale;
      return seen;
    }
    mask += (c.begin + r) * shape_.maskRow();
    if (shape_.maskColumn() == 0) {
      for (int64_t j = 0; j < seen; ++j)
        row[j] = row[j] * scale + mask[0];
    } else {
      for (int64_t j = 0; j < seen; ++j)
        row[j] = row[j] * scale + mask[j];
    }
    return seen;
  }
  const float *maskOf(const KernelArgs &args, int64_t head) const {
    if (!shape_.isMasked())
      return nullptr;
    return static_cast<const float *>(args.operands[shape_.maskOperand()]) + shape_.maskOf(head);
  }

  const AttentionShape shape_;
  const int64_t rows_;
  const int threads_;

private:
  const int64_t tasks_, teams_;
};

// The maximum of a row; zero if it is not finite, since inf - inf would be NaN.
float baseOf(const float *row, int64_t n) {
  using Lanes __attribute__((vector_size(32))) = float;
  constexpr int64_t kLanes = 8;
  Lanes lanes = Lanes{} - INFINITY, more = lanes, x, z;
  int64_t j = 0;
  for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
    std::memcpy(&x, row + j, sizeof x);
    std::memcpy(&z, row + j + kLanes, sizeof z);
    lanes = lanes > x ? lanes : x;
    more = more > z ? more : z;
  }
  lanes = lanes > more ? lanes : more;
  float most = -INFINITY;
  for (int64_t l = 0; l < kLanes; ++l)
    most = std::max(most, lanes[l]);
  for (; j < n; ++j)
    most = std::max(most, row[j]);
  return std::isfinite(most) ? most : 0;
}

// A task is a chunk.
class Forward : public Attention {
public:
  Forward(const OpCall &call, const AttentionShape &s, int threads)
      : Attention(call, threads, s.heads * ((s.queries + chunkRows(s) - 1) / chunkRows(s))) {}

private:
  int64_t floats() const override {
    return scoreFloats() + rowFloats() +
           rounded64(std::max(packedRows(shape_.depth), packedRows(shape_.width)));
  }

  void compute(const KernelArgs &args, int64_t task, float *workspace, int threads) const override {
    const int64_t head = task / chunks(), depth = shape_.depth, width = shape_.width;
    const Chunk c = chunk(task % chunks());
    auto *k = static_cast<const float *>(args.operands[1]) + head * shape_.keys * depth;
    auto *v = static_cast<const float *>(args.operands[2]) + head * shape_.keys * width;
    const float *mask = maskOf(args, head);
    float *scores = workspace, *factors = scores + scoreFloats(), *packed = factors + rowFloats();
    float *y = rowsOf(args.results[0], head, c, width), *lse = rowsOf(args.results[1], head, c, 1);

    multiplyTransposed(c, rowsOf(args.operands[0], head, c, depth), k, depth, scores, packed,
                       threads);
    forEachRow(c, threads, [&](int64_t r) {
      float *row = scores + r * c.seen;
      const int64_t seen = toScores(c, r, mask, row);
      const float base = baseOf(row, seen);
      for (int64_t j = 0; j < seen; ++j)
        row[j] = element::expOf(row[j] - base);
      std::fill(row + seen, row + c.seen, 0.0f);
      plain::LaneSum sum;
      sum.addRow(seen, [&](int64_t j) { return double(row[j]); });
      lse[r] = float(std::log(sum.total()) + double(base));
      factors[r] = float(element::factorOf(sum.total()));
    });
    multiplyRows(c, scores, v, width, y, packed, threads);
    forEachRow(c, threads, [&](int64_t r) {
      for (int64_t e = 0; e < width; ++e)
        y[r * width + e] *= factors[r];
    });
  }
};

// A task is a head.
class Backward : public Attention {
public:
  Backward(const OpCall &call, const AttentionShape &s, int threads)
      : Attention(call, threads, s.heads) {}

private:
  int64_t floats() const override {
    int64_t packed = 0;
    for (int64_t columns : {shape_.depth, shape_.width})
      packed = std::max({packed, packedRows(columns), packedColumns(columns)});
    return 2 * scoreFloats() + rounded64(packed);
  }

  void compute(const KernelArgs &args, int64_t head, float *workspace, int threads) const override {
    const int64_t depth = shape_.depth, width = shape_.width, keys = shape_.keys;
    auto *k = static_cast<const float *>(args.operands[2]) + head * keys * depth;
    auto *v = static_cast<const float *>(args.operands[3]) + head * keys * width;
    auto *dk = static_cast<float *>(args.results[1]) + head * keys * depth;
    auto *dv = static_cast<float *>(args.results[2]) + head * keys * width;
    const float *mask = maskOf(args, head);
    float *weights = workspace, *slopes = weights + scoreFloats(), *packed = slopes + scoreFloats();
    std::fill_n(dk, keys * depth, 0.0f);
    std::fill_n(dv, keys * width, 0.0f);
    for (int64_t i = 0; i < chunks(); ++i) {
      const Chunk c = chunk(i);
      const float *g = rowsOf(args.operands[0], head, c, width);
      const float *q = rowsOf(args.operands[1], head, c, depth);
      const float *y = rowsOf(args.operands[4], head, c, width);
      const float *lse = rowsOf(args.operands[5], head, c, 1);
      multiplyTransposed(c, q, k, depth, weights, packed, threads);
      multiplyTransposed(c, g, v, width, slopes, packed, threads);
      forEachRow(c, threads, [&](int64_t r) {
        float *weight = weights + r * c.seen, *slope = slopes + r * c.seen;
        const int64_t seen = toScores(c, r, mask, weight);
        plain::LaneSum dot;
        dot.addRow(width,
                   [&](int64_t e) { return double(g[r * width + e]) * double(y[r * width + e]); });
        const float gy = float(dot.total()), scale = float(shape_.scale);
        const float base = element::baseOf(lse[r]);
#pragma GCC ivdep
        for (int64_t j = 0; j < seen; ++j) {
          weight[j] = element::expOf(weight[j] - base);
          slope[j] = weight[j] * (slope[j] - gy) * scale;
        }
        std::fill(weight + seen, weight + c.seen, 0.0f);
        std::fill(slope + seen, slope + c.seen, 0.0f);
      });
      addColumns(c, weights, g, width, dv, packed, threads);
      addColumns(c, slopes, q, depth, dk, packed, threads);
      // Last, because dq may alias the chunk's rows of q, g or y.
      multiplyRows(c, slopes, k, depth, rowsOf(args.results[0], head, c, depth), packed, threads);
    }
  }
};

template <typename K>
std::unique_ptr<PreparedKernel> prepareAttention(const OpCall &call, const KernelOptions &options) {
  if (!isAvailable() || call.operands[0].dtype != DType::F32)
    return nullptr;
  for (const Type &t : call.operands)
    if (t.elements() == 0)
      return nullptr;
  return std::make_unique<K>(call, AttentionShape(call), options.threads);
}

} // namespace
} // namespace isthmus::gemm

namespace isthmus {

void registerGemmAttention(KernelTable &table) {
  table.add({"attention", "gemm", gemm::prepareAttention<gemm::Forward>});
  table.add({"attention_grad", "gemm", gemm::prepareAttention<gemm::Backward>});
}

} // namespace isthmus
