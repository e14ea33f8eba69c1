// Determinants and inverses, by elimination with row pivots, in double. Each matrix is one
// thread's.

#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Eliminates below (and above, with `full`) the diagonal of the n x n left part of `a`, whose rows
// have `width` elements; gives the determinant of that part. With `full` the left becomes diagonal,
// and each row is divided by its pivot.
double eliminate(double *a, int64_t n, int64_t width, bool full) {
  double det = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t i = k + 1; i < n; ++i)
      if (std::fabs(a[i * width + k]) > std::fabs(a[pivot * width + k]))
        pivot = i;
    if (pivot != k) {
      std::swap_ranges(a + k * width, a + (k + 1) * width, a + pivot * width);
      det = -det;
    }
    double p = a[k * width + k];
    det *= p;
    if (p == 0 && !full)
      return det; // zero
    for (int64_t i = full ? 0 : k + 1; i < n; ++i) {
      if (i == k)
        continue;
      double factor = a[i * width + k] / p;
      for (int64_t j = k; j < width; ++j)
        a[i * width + j] -= factor * a[k * width + j];
    }
  }
  for (int64_t k = 0; full && k < n; ++k)
    for (int64_t j = n; j < width; ++j)
      a[k * width + j] /= a[k * width + k];
  return det;
}

class Elimination : public PreparedKernel {
public:
  Elimination(const OpCall &call, int threads)
      : attrs_(*call.attrs), call_(call), threads_(threads), inverse_(call.op->name == "inverse"),
        n_(call.operands[0].dims.back()) {
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
          one(x + m * n_ * n_, inverse_ ? y + m * n_ * n_ : y + m, a);
      });
    });
  }

private:
  int64_t width() const { return inverse_ ? 2 * n_ : n_; }
  int64_t scratch() const { return n_ * width(); }

  template <typename T> void one(const T *x, T *y, double *a) const {
    using C = Compute<T>;
    std::fill_n(a, scratch(), 0.0);
    for (int64_t i = 0; i < n_; ++i) {
      for (int64_t j = 0; j < n_; ++j)
        a[i * width() + j] = double(C(x[i * n_ + j]));
      if (inverse_)
        a[i * width() + n_ + i] = 1;
    }
    double det = eliminate(a, n_, width(), inverse_);
    if (!inverse_) {
      *y = T(C(det));
      return;
    }
    bool singular = det == 0 || det != det;
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < n_; ++j)
        y[i * n_ + j] =
            T(singular ? std::numeric_limits<C>::quiet_NaN() : C(a[i * width() + n_ + j]));
  }

  Attrs attrs_;
  OpCall call_;
  int threads_;
  bool inverse_;
  int64_t n_;
};

std::unique_ptr<PreparedKernel> prepareElimination(const OpCall &call,
                                                   const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(std::make_unique<Elimination>(call, options.threads),
                                          options.threads);
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainLinalg(KernelTable &table) {
  table.add({"det", "plain", plain::prepareElimination});
  table.add({"inverse", "plain", plain::prepareElimination});
}

} // namespace isthmus
