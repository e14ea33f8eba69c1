// top_k.

#include "kernels/element/order.h"
#include "kernels/element/columns.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"
#include <numeric>

namespace isthmus::plain {
namespace {

// Sorts columns along the axis. Each thread sorts the positions of one column at a time, in its own
// part of the workspace.
class TopK : public PreparedKernel {
public:
  TopK(const OpCall &call, int threads)
      : attrs_(*call.attrs), call_(call), threads_(threads), from_(call, call.operands[0]),
        to_(call, call.results[0]) {
    call_.attrs = &attrs_;
  }
  int64_t workspaceBytes() const override {
    return threads_ * from_.length * int64_t(sizeof(int64_t));
  }

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
    const int64_t grain = kGrain / (8 * from_.length + 1) + 1;
    parallelFor(from_.count(), grain, [&](int64_t begin, int64_t end) {
      int64_t *places =
          static_cast<int64_t *>(args.workspace) + omp_get_thread_num() * from_.length;
      for (int64_t column = begin; column < end; ++column) {
        const T *from = x + from_.start(column);
        auto before = [&](int64_t a, int64_t b) {
          Compute<T> va(from[a * from_.step]), vb(from[b * from_.step]);
          return precedes(va, a, vb, b, largest);
        };
        std::iota(places, places + from_.length, 0);
        std::partial_sort(places, places + k, places + from_.length, before);
        for (int64_t j = 0; j < k; ++j) {
          int64_t at = to_.start(column) + j * to_.step;
          values[at] = from[places[j] * from_.step];
          indices[at] = places[j];
        }
      }
    });
  }

  Attrs attrs_;
  OpCall call_;
  int threads_;
  Columns from_, to_;
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
