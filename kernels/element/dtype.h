// Element types of tensors as C++ types, and dispatch of templates on them.
#pragma once

#include "ir/check.h"
#include "ir/type.h"
#include "kernels/element/portable.h"
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace isthmus::element {

// The upper half of a float. Conversion rounds to nearest, ties to even; NaN stays NaN.
struct BF16 {
  uint16_t bits = 0;
  BF16() = default;
  ISTHMUS_DEVICE explicit BF16(float f) {
    uint32_t u = std::bit_cast<uint32_t>(f);
    uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    bits = static_cast<uint16_t>(f != f ? (u >> 16) | 0x40 : rounded);
  }
  ISTHMUS_DEVICE operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

// IEEE binary16. Converts as ir/half.h does but without branches, so that loops vectorise.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  ISTHMUS_DEVICE explicit F16(float f) { // to nearest, ties to even
    uint32_t u = std::bit_cast<uint32_t>(f), size = u & 0x7fffffff;
    uint32_t normal =
        (size - (112u << 23) + 0xfff + ((size >> 13) & 1)) >> 13; // exponents differ by 112
    // Below 2^-14 the spacing is 2^-24, which is the spacing of floats in [1/2, 1).
    uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
    uint32_t h = size < 0x38800000u ? small : normal;
    h = size >= 0x47800000u ? 0x7c00u : h; // 2^16 and above
    h = size > 0x7f800000u ? 0x7e00u : h;
    bits = static_cast<uint16_t>(h | ((u >> 16) & 0x8000));
  }
  ISTHMUS_DEVICE operator float() const {
    uint32_t size = bits & 0x7fff;
    uint32_t small = std::bit_cast<uint32_t>(float(int32_t(size)) * 0x1p-24f);
    uint32_t u = size < 0x400 ? small : (size << 13) + (112u << 23);
    u = size >= 0x7c00 ? (size << 13) + (224u << 23) : u; // infinity and NaN
    return std::bit_cast<float>(u | uint32_t(bits & 0x8000) << 16);
  }
};

static_assert(sizeof(BF16) == 2 && sizeof(F16) == 2 && sizeof(bool) == 1);

template <typename T>
constexpr bool kIsFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

// The type that arithmetic on elements of type T uses: float for the 16-bit types, else T.
template <typename T> struct ComputeOf { using type = T; };
template <> struct ComputeOf<BF16> { using type = float; };
template <> struct ComputeOf<F16> { using type = float; };
template <typename T> using Compute = typename ComputeOf<T>::type;

// The accumulator type for sums of elements of type T.
template <typename T> using Accumulate = std::conditional_t<kIsFloat<T>, double, int64_t>;

// `v` converted to element type T. Floats round to nearest. Floats to integers round towards zero
// and saturate; NaN becomes zero. A bool is true for any value but zero.
template <typename T, typename V> ISTHMUS_DEVICE inline T converted(V v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != V(0);
  } else if constexpr (kIsFloat<T>) {
    return static_cast<T>(static_cast<Compute<T>>(v));
  } else if constexpr (std::is_floating_point_v<V>) {
    // Both bounds are powers of two (the upper one excluded), so they are exact in V.
    constexpr V low = V(std::numeric_limits<T>::min());
    constexpr V past = V(std::numeric_limits<T>::max() / 2 + 1) * 2;
    if (v != v)
      return 0;
    return v < low     ? std::numeric_limits<T>::min()
           : v >= past ? std::numeric_limits<T>::max()
                       : static_cast<T>(v);
  } else {
    return static_cast<T>(v); // between integers: modulo 2^bits
  }
}

template <typename T> struct TypeTag { using type = T; };

// Calls `f` with a TypeTag of the element type: `dispatch(t, [&](auto tag) { using T = typename
// decltype(tag)::type; ... })`.
template <typename F> void dispatchFloat(DType t, F f) {
  switch (t) {
  case DType::F32:
    return f(TypeTag<float>());
  case DType::F64:
    return f(TypeTag<double>());
  case DType::BF16:
    return f(TypeTag<BF16>());
  case DType::F16:
    return f(TypeTag<F16>());
  default:
    ISTHMUS_UNREACHABLE("a kernel for floats was given " + dtypeName(t).str());
  }
}
template <typename F> void dispatchInteger(DType t, F f) { // the types that indices may have
  switch (t) {
  case DType::I32:
    return f(TypeTag<int32_t>());
  case DType::I64:
    return f(TypeTag<int64_t>());
  default:
    ISTHMUS_UNREACHABLE("a kernel for indices was given " + dtypeName(t).str());
  }
}
template <typename F> void dispatchNumber(DType t, F f) { // all but bool
  switch (t) {
  case DType::I32:
  case DType::I64:
    return dispatchInteger(t, f);
  case DType::U8:
    return f(TypeTag<uint8_t>());
  default:
    return dispatchFloat(t, f);
  }
}
template <typename F> void dispatchAny(DType t, F f) {
  return t == DType::Bool ? f(TypeTag<bool>()) : dispatchNumber(t, f);
}

// The same for kernels that only move elements: the tag is an unsigned integer of the element's
// size.
template <typename F> void dispatchSize(DType t, F f) {
  switch (dtypeBytes(t)) {
  case 1:
    return f(TypeTag<uint8_t>());
  case 2:
    return f(TypeTag<uint16_t>());
  case 4:
    return f(TypeTag<uint32_t>());
  case 8:
    return f(TypeTag<uint64_t>());
  default:
    ISTHMUS_UNREACHABLE("element size");
  }
}

} // namespace isthmus::element
