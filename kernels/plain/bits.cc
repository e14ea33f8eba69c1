// Logical and bitwise operations, and shifts.

#include "kernels/element/bits.h"
#include "kernels/plain/map.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void runBits(const OpCall &call, const KernelArgs &args) {
  dispatchBits(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapTwo<T, T>(call, args, F());
  });
}

template <typename F> void runShift(const OpCall &call, const KernelArgs &args) {
  dispatchBits(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (!std::is_same_v<T, bool>)
      mapTwo<T, T>(call, args, F());
  });
}

void runNot(const OpCall &call, const KernelArgs &args) {
  dispatchBits(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    mapOne<T>(call, args, Not());
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainBits(KernelTable &table) {
  using namespace plain;
  table.add({"and", "plain", prepareThreaded<runBits<And>>});
  table.add({"or", "plain", prepareThreaded<runBits<Or>>});
  table.add({"xor", "plain", prepareThreaded<runBits<Xor>>});
  table.add({"not", "plain", prepareThreaded<runNot>});
  table.add({"shift_left", "plain", prepareThreaded<runShift<ShiftLeft>>});
  table.add({"shift_right", "plain", prepareThreaded<runShift<ShiftRight>>});
}

} // namespace isthmus
