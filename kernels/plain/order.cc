// Choice by order.

#include "kernels/element/order.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"
#include <numeric>

namespace isthmus::plain {
namespace {

// Columns along the axis; a thread sorts places of one after the other in its part of the
// workspace.
class TopK : public PreparedKernel {
public:
  TopK(const OpCall &call, int threads) : attrs_(*call.attrs), call_(call), threads_(threads) {
    call_.attrs = &attrs_;
    const Type &x = call.operands[0];
    int64_t axis = call.attrs->getInt("axis");
    axis = axis < 0 ? axis + x.rank() : axis;
    length_ = x.dims[axis];
    for (int64_t i = 0; i < x.rank(); ++i)
      if (i != axis)
        (i < axis ? outer_ : inner_) *= x.dims[i];
  }
  int64_t workspaceBytes() const override { return threads_ * length_ * int64_t(sizeof(int64_t)); }

  void run(const KernelArgs &args) override {
    dispatchNumber(call_.operands[0].dtype,
                   [&](auto tag) { sort<typename decltype(tag)::type>(args); });
  }

private:
  template <typename T> void sort(const KernelArgs &args) const {
    int64_t k = call_.attrs->getInt("k");
    bool largest = call_.attrs->getBool("largest");
    const T *x = operand<T>(args, 0);
    T *values = result<T>(args, 0);
    int64_t *indices = result<int64_t>(args, 1);
    parallelFor(outer_ * inner_, kGrain / (8 * length_ + 1) + 1, [&](int64_t begin, int64_t end) {
      int64_t *places = static_cast<int64_t *>(args.workspace) + omp_get_thread_num() * length_;
      for (int64_t column = begin; column < end; ++column) {
        int64_t o = column / inner_, i = column % inner_;
        const T *from = x + o * length_ * inner_ + i;
        auto before = [&](int64_t a, int64_t b) {
          Compute<T> va(from[a * inner_]), vb(from[b * inner_]);
          return precedes(va, a, vb, b, largest);
        };
        std::iota(places, places + length_, 0);
        std::partial_sort(places, places + k, places + length_, before);
        for (int64_t j = 0; j < k; ++j) {
          int64_t at = (o * k + j) * inner_ + i;
          values[at] = from[places[j] * inner_];
          indices[at] = places[j];
        }
      }
    });
  }

  Attrs attrs_;
  OpCall call_;
  int threads_;
  int64_t outer_ = 1, inner_ = 1, length_;
};

std::unique_ptr<PreparedKernel> prepareTopK(const OpCall &call, const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(std::make_unique<TopK>(call, options.threads),
                                          options.threads);
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainOrder(KernelTable &table) { table.add({"top_k", "plain", plain::prepareTopK}); }

} // namespace isthmus
