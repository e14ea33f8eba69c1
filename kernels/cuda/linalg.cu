// Determinants and inverses, by elimination with row pivots, in double: a team for each matrix,
// with the plain kernel's arithmetic in its order.

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/register.h"

namespace isthmus::cuda {
namespace {

struct Matrices {
  int64_t count = 1, n, width; // of the rows that are worked on: of twice n for an inverse
  bool inverse;

  explicit Matrices(const OpCall &call)
      : n(call.operands[0].dims.back()), inverse(call.op->name == "inverse") {
    for (int64_t d : llvm::makeArrayRef(call.operands[0].dims).drop_back(2))
      count *= d;
    width = inverse ? 2 * n : n;
  }
  // Few large ones share the memory that many small ones would each take.
  ISTHMUS_DEVICE int64_t teams() const { return std::min<int64_t>(count, 1024); }
  ISTHMUS_DEVICE int64_t scratch() const { return n * width + n; } // with a column of factors
};

struct Pivot {
  double size;
  int64_t row;
};

template <typename T> struct Eliminate {
  Matrices m;
  const T *x;
  T *y;
  double *memory;

  ISTHMUS_GPU void operator()(int64_t t, const Team &team) const {
    for (int64_t i = t; i < m.count; i += m.teams())
      one(team, x + i * m.n * m.n, y + i * (m.inverse ? m.n * m.n : 1), memory + t * m.scratch());
  }

  // Eliminates below the diagonal of the left part of `a`, for an inverse above it too; its
  // determinant.
  ISTHMUS_GPU double eliminate(const Team &team, double *a, double *factor) const {
    int64_t n = m.n, width = m.width;
    double det = 1;
    for (int64_t k = 0; k < n; ++k) {
      double first = a[k * width + k]; // NaN stays the pivot where it is the first
      // The first of the largest: NaN further on is never larger.
      Pivot pivot = team.reduce(
          n - k, Pivot{-1, n},
          [&](Pivot p, int64_t i) {
            return larger(p, {std::fabs(a[(k + i) * width + k]), k + i});
          },
          [&](Pivot p, Pivot q) { return larger(p, q); });
      int64_t row = first != first || pivot.row == n ? k : pivot.row;
      if (row != k) {
        team.forEach(width, [&](int64_t j) {
          double v = a[k * width + j];
          a[k * width + j] = a[row * width + j];
          a[row * width + j] = v;
        });
        det = -det;
      }
      double p = a[k * width + k];
      det *= p;
      if (p == 0 && !m.inverse)
        return det;
      int64_t from = m.inverse ? 0 : k + 1;
      team.forEach(n - from, [&](int64_t i) { factor[i] = a[(from + i) * width + k] / p; });
      int64_t right = width - k - 1; // the column itself is not read again
      team.forEach((n - from) * right, [&](int64_t e) {
        int64_t i = e / right, j = k + 1 + e % right;
        if (from + i != k)
          a[(from + i) * width + j] -= factor[i] * a[k * width + j];
      });
    }
    return det;
  }
  static ISTHMUS_GPU Pivot larger(Pivot p, Pivot q) {
    return q.size > p.size || (q.size == p.size && q.row < p.row) ? q : p;
  }

  ISTHMUS_GPU void one(const Team &team, const T *from, T *to, double *a) const {
    using C = Compute<T>;
    int64_t n = m.n, width = m.width;
    team.wait(); // until nobody reads the matrix before
    team.forEach(n * width, [&](int64_t e) {
      int64_t i = e / width, j = e % width;
      a[e] = j < n ? double(C(from[i * n + j])) : j == n + i ? 1 : 0;
    });
    double det = eliminate(team, a, a + n * width);
    if (!m.inverse) {
      if (team.isFirst())
        *to = T(C(det));
      return;
    }
    bool singular = det == 0 || det != det;
    team.forEach(n * n, [&](int64_t e) {
      int64_t i = e / n, j = e % n;
      double v = a[i * width + n + j] / a[i * width + i];
      to[e] = T(singular ? std::numeric_limits<C>::quiet_NaN() : C(v));
    });
  }
};

struct Elimination {
  template <typename T> static void run(const Launch &l) {
    Matrices m(l.call);
    forEachTeam(l.queue, m.teams(), m.n * m.width,
                Eliminate<T>{m, l.operand<T>(0), l.result<T>(0), l.workspace<double>()});
  }
};
int64_t workspaceOf(const OpCall &call) {
  Matrices m(call);
  return m.teams() * m.scratch() * int64_t(sizeof(double));
}

} // namespace

void registerLinalg(KernelTable &table) {
  table.add({"det", "cuda", prepareGrid<runByOperand<Elimination>, workspaceOf>});
  table.add({"inverse", "cuda", prepareGrid<runByOperand<Elimination>, workspaceOf>});
}

} // namespace isthmus::cuda
