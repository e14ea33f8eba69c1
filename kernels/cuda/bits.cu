// Logical and bitwise operations, and shifts.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/bits.h"

namespace isthmus::cuda {
namespace {

template <typename F> void runBits(const Launch &l) {
  dispatchBits(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(l, F());
  });
}

template <typename F> void runShift(const Launch &l) {
  dispatchBits(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>)
      mapTwo<T, T>(l, F());
  });
}

void runNot(const Launch &l) {
  dispatchBits(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(l, Not());
  });
}

} // namespace

void registerBits(KernelTable &table) {
  table.add({"and", "cuda", prepareGrid<runBits<And>>});
  table.add({"or", "cuda", prepareGrid<runBits<Or>>});
  table.add({"xor", "cuda", prepareGrid<runBits<Xor>>});
  table.add({"not", "cuda", prepareGrid<runNot>});
  table.add({"shift_left", "cuda", prepareGrid<runShift<ShiftLeft>>});
  table.add({"shift_right", "cuda", prepareGrid<runShift<ShiftRight>>});
}

} // namespace isthmus::cuda
