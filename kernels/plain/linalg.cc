// Determinants and inverses, by elimination with row pivots, in double. Each matrix is processed by
// one thread.

#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Swaps the largest element of column k, from row k on, into row k. Returns its former row.
int64_t swapPivot(double *a, int64_t n, int64_t k) {
  int64_t pivot = k;
  for (int64_t i = k + 1; i < n; ++i)
    if (std::fabs(a[i * n + k]) > std::fabs(a[pivot * n + k]))
      pivot = i;
  if (pivot != k)
    std::swap_ranges(a + k * n, a + (k + 1) * n, a + pivot * n);
  return pivot;
}

// Eliminates below the diagonal of the n x n matrix `a`. Calls take(pivot, whether rows were
// swapped) for each row, up to and including the first zero pivot.
template <typename Take> void triangulate(double *a, int64_t n, Take take) {
  for (int64_t k = 0; k < n; ++k) {
    bool swapped = swapPivot(a, n, k) != k;
    const double p = a[k * n + k];
    take(p, swapped);
    if (p == 0)
      return;
    vectorised([=] {
      for (int64_t i = k + 1; i < n; ++i) {
        const double factor = a[i * n + k] / p, *from = a + k * n;
        double *row = a + i * n;
#pragma GCC ivdep
        for (int64_t j = k + 1; j < n; ++j)
          row[j] -= factor * from[j];
      }
    });
  }
}

double determinant(double *a, int64_t n) {
  double det = 1;
  triangulate(a, n, [&](double p, bool swapped) { det *= swapped ? -p : p; });
  return det;
}

double logAbsDeterminant(double *a, int64_t n) {
  double sum = 0;
  triangulate(a, n, [&](double p, bool) { sum += std::log(std::fabs(p)); });
  return sum;
}

// Gauss-Jordan elimination in place: each finished column is replaced by the column of the inverse.
// The row swaps permute the columns: column j of the inverse is column order[j] of `a`. `order` has
// room for 2 n numbers. False if the matrix is singular.
bool invert(double *a, int64_t n, int64_t *order) {
  int64_t *rows = order + n; // the former row of each pivot
  for (int64_t k = 0; k < n; ++k) {
    rows[k] = swapPivot(a, n, k);
    const double p = a[k * n + k];
    if (p == 0 || p != p)
      return false;
    vectorised([=] {
      double *from = a + k * n;
      from[k] = 1;
#pragma GCC ivdep
      for (int64_t j = 0; j < n; ++j)
        from[j] /= p;
      for (int64_t i = 0; i < n; ++i) {
        if (i == k)
          continue;
        double *row = a + i * n;
        const double factor = row[k];
        row[k] = 0;
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j)
          row[j] -= factor * from[j];
      }
    });
  }
  for (int64_t k = 0; k < n; ++k)
    order[k] = k;
  for (int64_t k = n; k-- > 0;)
    std::swap(order[k], order[rows[k]]);
  return true;
}

enum class Wanted { Det, LogAbsDet, Inverse };

template <Wanted wanted> class Elimination : public PreparedKernel {
public:
  Elimination(const OpCall &call, int threads)
      : attrs_(*call.attrs), call_(call), threads_(threads), n_(call.operands[0].dims.back()) {
    call_.attrs = &attrs_;
  }
  int64_t workspaceBytes() const override { return threads_ * scratch() * int64_t(sizeof(double)); }

  void run(const KernelArgs &args) override {
    dispatchFloat(call_.operands[0].dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      const T *x = operand<T>(args, 0);
      T *y = result<T>(args, 0);
      int64_t matrices = 1;
      for (int64_t d : llvm::makeArrayRef(call_.operands[0].dims).drop_back(2))
        matrices *= d;
      parallelFor(matrices, kGrain / (n_ * n_ * n_ + 1) + 1, [&](int64_t begin, int64_t end) {
        double *a = static_cast<double *>(args.workspace) + omp_get_thread_num() * scratch();
        for (int64_t m = begin; m < end; ++m)
          one(x + m * n_ * n_, y + m * (wanted == Wanted::Inverse ? n_ * n_ : 1), a);
      });
    });
  }

private:
  // The matrix, and the two lists that `invert` needs.
  int64_t scratch() const { return n_ * n_ + (wanted == Wanted::Inverse ? 2 * n_ : 0); }

  template <typename T> void one(const T *x, T *y, double *a) const {
    using C = Compute<T>;
    for (int64_t i = 0; i < n_ * n_; ++i)
      a[i] = double(C(x[i]));
    if constexpr (wanted == Wanted::Inverse) {
      static_assert(sizeof(int64_t) == sizeof(double));
      auto *order = reinterpret_cast<int64_t *>(a + n_ * n_);
      bool isThere = invert(a, n_, order);
      for (int64_t i = 0; i < n_; ++i)
        for (int64_t j = 0; j < n_; ++j)
          y[i * n_ + j] =
              T(isThere ? C(a[i * n_ + order[j]]) : std::numeric_limits<C>::quiet_NaN());
    } else {
      *y = T(C(wanted == Wanted::Det ? determinant(a, n_) : logAbsDeterminant(a, n_)));
    }
  }

  Attrs attrs_;
  OpCall call_;
  int threads_;
  int64_t n_;
};

template <Wanted wanted>
std::unique_ptr<PreparedKernel> prepareElimination(const OpCall &call,
                                                   const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(
      std::make_unique<Elimination<wanted>>(call, options.threads), options.threads);
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainLinalg(KernelTable &table) {
  using namespace plain;
  table.add({"det", "plain", prepareElimination<Wanted::Det>});
  table.add({"logabsdet", "plain", prepareElimination<Wanted::LogAbsDet>});
  table.add({"inverse", "plain", prepareElimination<Wanted::Inverse>});
}

} // namespace isthmus
