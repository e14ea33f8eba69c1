// Determinants and inverses, by elimination with row pivots, in double: one team per matrix, with
// the plain kernel's arithmetic in the same order.

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/register.h"

namespace isthmus::cuda {
namespace {

enum class Wanted { Det, LogAbsDet, Inverse };

struct Matrices {
  int64_t count = 1, n;

  explicit Matrices(const OpCall &call) : n(call.operands[0].dims.back()) {
    for (int64_t d : llvm::makeArrayRef(call.operands[0].dims).drop_back(2))
      count *= d;
  }
  // At most 1024 teams have scratch memory; if there are more matrices, each team processes
  // several.
  ISTHMUS_DEVICE int64_t teams() const { return std::min<int64_t>(count, 1024); }
  // The matrix, a column of factors, and the two lists that `invert` needs.
  ISTHMUS_DEVICE int64_t scratch() const { return n * n + 3 * n; }
};

struct Pivot {
  double size;
  int64_t row;
};

template <typename T, Wanted wanted> struct Eliminate {
  Matrices m;
  const T *x;
  T *y;
  double *memory;

  ISTHMUS_GPU void operator()(int64_t t, const Team &team) const {
    int64_t each = wanted == Wanted::Inverse ? m.n * m.n : 1;
    for (int64_t i = t; i < m.count; i += m.teams())
      one(team, x + i * m.n * m.n, y + i * each, memory + t * m.scratch());
  }

  static ISTHMUS_GPU Pivot larger(Pivot p, Pivot q) {
    return q.size > p.size || (q.size == p.size && q.row < p.row) ? q : p;
  }

  // Swaps the largest element of column k, from row k on, into row k. Returns its former row.
  ISTHMUS_GPU int64_t swapPivot(const Team &team, double *a, int64_t k) const {
    int64_t n = m.n;
    double first = a[k * n + k]; // a NaN in row k stays the pivot
    // The first of the largest elements. A NaN in a later row never counts as larger.
    Pivot pivot = team.reduce(
        n - k, Pivot{-1, n},
        [&](Pivot p, int64_t i) {
          return larger(p, {std::fabs(a[(k + i) * n + k]), k + i});
        },
        [&](Pivot p, Pivot q) { return larger(p, q); });
    int64_t row = first != first || pivot.row == n ? k : pivot.row;
    if (row != k)
      team.forEach(n, [&](int64_t j) {
        double v = a[k * n + j];
        a[k * n + j] = a[row * n + j];
        a[row * n + j] = v;
      });
    return row;
  }

  // Eliminates below the diagonal. Returns the determinant, or the logarithm of its absolute value.
  ISTHMUS_GPU double triangulate(const Team &team, double *a, double *factor) const {
    int64_t n = m.n;
    double det = 1, sum = 0;
    for (int64_t k = 0; k < n; ++k) {
      bool swapped = swapPivot(team, a, k) != k;
      double p = a[k * n + k];
      det *= swapped ? -p : p;
      if constexpr (wanted == Wanted::LogAbsDet)
        sum += std::log(std::fabs(p));
      if (p == 0)
        break;
      int64_t from = k + 1, width = n - from; // column k itself is not read again
      team.forEach(width, [&](int64_t i) { factor[i] = a[(from + i) * n + k] / p; });
      team.forEach(width * width, [&](int64_t e) {
        int64_t i = e / width, j = from + e % width;
        a[(from + i) * n + j] -= factor[i] * a[k * n + j];
      });
    }
    return wanted == Wanted::LogAbsDet ? sum : det;
  }

  // Inverts in place: column j of the inverse is column order[j] of `a`. False if the matrix is
  // singular.
  ISTHMUS_GPU bool invert(const Team &team, double *a, double *factor, int64_t *order) const {
    int64_t n = m.n, *rows = order + n;
    for (int64_t k = 0; k < n; ++k) {
      int64_t row = swapPivot(team, a, k);
      double p = a[k * n + k];
      if (p == 0 || p != p)
        return false;
      if (team.isFirst())
        rows[k] = row;
      team.forEach(n, [&](int64_t i) { factor[i] = a[i * n + k]; });
      team.forEach(n, [&](int64_t j) { a[k * n + j] = (j == k ? 1 : a[k * n + j]) / p; });
      team.forEach(n * n, [&](int64_t e) {
        int64_t i = e / n, j = e % n;
        if (i != k)
          a[e] = (j == k ? 0 : a[e]) - factor[i] * a[k * n + j];
      });
    }
    if (team.isFirst()) {
      for (int64_t k = 0; k < n; ++k)
        order[k] = k;
      for (int64_t k = n; k-- > 0;) {
        int64_t v = order[k];
        order[k] = order[rows[k]];
        order[rows[k]] = v;
      }
    }
    team.wait();
    return true;
  }

  ISTHMUS_GPU void one(const Team &team, const T *from, T *to, double *a) const {
    using C = Compute<T>;
    int64_t n = m.n;
    team.wait(); // until no lane reads the preceding matrix
    team.forEach(n * n, [&](int64_t e) { a[e] = double(C(from[e])); });
    double *factor = a + n * n;
    if constexpr (wanted == Wanted::Inverse) {
      auto *order = reinterpret_cast<int64_t *>(factor + n);
      bool isThere = invert(team, a, factor, order);
      team.forEach(n * n, [&](int64_t e) {
        to[e] = T(isThere ? C(a[e / n * n + order[e % n]]) : std::numeric_limits<C>::quiet_NaN());
      });
    } else {
      double v = triangulate(team, a, factor);
      if (team.isFirst())
        *to = T(C(v));
    }
  }
};

template <Wanted wanted> struct Elimination {
  template <typename T> static void run(const Launch &l) {
    Matrices m(l.call);
    forEachTeam(l.queue, m.teams(), m.n * m.n,
                Eliminate<T, wanted>{m, l.operand<T>(0), l.result<T>(0), l.workspace<double>()});
  }
};
int64_t workspaceOf(const OpCall &call) {
  Matrices m(call);
  return m.teams() * m.scratch() * int64_t(sizeof(double));
}

template <Wanted wanted> void add(KernelTable &table, const char *op) {
  table.add({op, "cuda", prepareGrid<runByOperand<Elimination<wanted>>, workspaceOf>});
}

} // namespace

void registerLinalg(KernelTable &table) {
  add<Wanted::Det>(table, "det");
  add<Wanted::LogAbsDet>(table, "logabsdet");
  add<Wanted::Inverse>(table, "inverse");
}

} // namespace isthmus::cuda
