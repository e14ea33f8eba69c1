// Logic, on truth values and bits, and shifts.

#include "kernels/plain/map.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

template <typename F> void dispatchBits(DType t, F f) { // bool and integers
  switch (t) {
  case DType::Bool:
    return f(TypeTag<bool>());
  case DType::U8:
    return f(TypeTag<uint8_t>());
  default:
    return dispatchInteger(t, f);
  }
}

struct And {
  template <typename T> T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
struct Or {
  template <typename T> T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
struct Xor {
  template <typename T> T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

// Whether there are places that are moved and stay.
template <typename T> bool staysInside(T places) {
  return places >= 0 && places < T(8 * sizeof(T));
}
struct ShiftLeft {
  template <typename T> T operator()(T a, T places) const {
    return staysInside(places) ? static_cast<T>(uint64_t(a) << places) : T(0);
  }
};
struct ShiftRight {
  template <typename T> T operator()(T a, T places) const {
    return staysInside(places) ? static_cast<T>(a >> places) : a < 0 ? T(-1) : T(0);
  }
};

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
    mapOne<T>(call, args, [](T x) {
      if constexpr (std::is_same_v<T, bool>)
        return !x;
      else
        return static_cast<T>(~x);
    });
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
