// Moves and fills elements, in units of up to sixteen bytes where alignment allows.
#pragma once

#include "kernels/cuda/map.h"
#include <cstring>

namespace isthmus::cuda {

// Calls f with a tag of a type of `bytes` bytes, a power of two up to sixteen.
template <typename F> void dispatchUnit(int64_t bytes, F f) {
  switch (bytes) {
  case 1:
    return f(TypeTag<uint8_t>());
  case 2:
    return f(TypeTag<uint16_t>());
  case 4:
    return f(TypeTag<uint32_t>());
  case 8:
    return f(TypeTag<uint64_t>());
  default:
    return f(TypeTag<Pack<uint64_t, 2>>());
  }
}

// The largest unit, from `elementBytes` to sixteen bytes, that divides all given numbers.
inline int64_t unitOf(int64_t elementBytes, std::initializer_list<int64_t> bytes) {
  int64_t unit = 16;
  for (int64_t b : bytes)
    while (unit > elementBytes && b % unit)
      unit /= 2;
  return unit;
}
inline int64_t addressOf(const void *p) { return int64_t(reinterpret_cast<uintptr_t>(p)); }

// An element's bytes repeated to fill a unit.
template <typename U> U repeated(const void *element, int64_t elementBytes) {
  U unit;
  for (int64_t at = 0; at < int64_t(sizeof(U)); at += elementBytes)
    std::memcpy(reinterpret_cast<char *>(&unit) + at, element, size_t(elementBytes));
  return unit;
}

template <typename U>
void moveUnits(const Queue &queue, int64_t n, const Strided<2> &strided, const U *x, U *y) {
  forEach(queue, n, [=] ISTHMUS_GPU(int64_t i) {
    int64_t at[2];
    strided.at(i, at);
    y[at[1]] = x[at[0]];
  });
}

// Copies elements of shape `dims` between two strided tensors. Neighbouring threads copy neighbours
// in row-major order.
inline void copyStrided(const Queue &queue, int64_t elementBytes, llvm::ArrayRef<int64_t> dims,
                        const void *x, const Dims &stridesX, void *y, const Dims &stridesY) {
  Walk<2> walk(dims, {stridesX, stridesY});
  int64_t unit = elementBytes;
  if (walk.rowStride(0) == 1 && walk.rowStride(1) == 1) {
    unit = unitOf(elementBytes, {addressOf(x), addressOf(y), walk.rowLength() * elementBytes});
    for (size_t a = 0; a + 1 < walk.rank(); ++a)
      unit = std::min(unit, unitOf(elementBytes, {walk.stride(0, a) * elementBytes,
                                                  walk.stride(1, a) * elementBytes}));
  }
  int64_t each = unit / elementBytes;
  Dims sizes, from, to; // in units
  for (size_t a = 0; a < walk.rank(); ++a) {
    bool last = a + 1 == walk.rank();
    sizes.push_back(last ? walk.size(a) / each : walk.size(a));
    from.push_back(last ? walk.stride(0, a) : walk.stride(0, a) / each);
    to.push_back(last ? walk.stride(1, a) : walk.stride(1, a) / each);
  }
  Strided<2> strided(Walk<2>(sizes, {from, to}));
  int64_t n = walk.elements() / each;
  dispatchUnit(unit, [&](auto tag) {
    using U = typename decltype(tag)::type;
    moveUnits(queue, n, strided, static_cast<const U *>(x), static_cast<U *>(y));
  });
}

inline void copyDense(const Queue &queue, int64_t bytes, const void *x, void *y) {
  copyStrided(queue, 1, {bytes}, x, {1}, y, {1});
}

template <typename U> void fillUnits(const Queue &queue, int64_t n, U value, U *y) {
  forEach(queue, n, [=] ISTHMUS_GPU(int64_t i) { y[i] = value; });
}
// Fills y with n copies of the element at `element`, which is in host memory.
inline void fillDense(const Queue &queue, int64_t n, const void *element, int64_t elementBytes,
                      void *y) {
  int64_t unit = unitOf(elementBytes, {addressOf(y), n * elementBytes});
  dispatchUnit(unit, [&](auto tag) {
    using U = typename decltype(tag)::type;
    fillUnits(queue, n * elementBytes / unit, repeated<U>(element, elementBytes),
              static_cast<U *>(y));
  });
}

} // namespace isthmus::cuda
