#include "ir/onnx/parameters/tables.h"

#include "ir/element.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// Calls `each` on every element until it returns false. Returns true if it never did.
template <typename Each> bool allElements(const Tensor &t, Each each) {
  int64_t n = t.type.elements();
  if (t.type.dtype == DType::F32) { // the common case: no type switch for each element
    for (int64_t i = 0; i < n; ++i) {
      float f;
      std::memcpy(&f, t.data + i * 4, 4);
      if (!each(double(f)))
        return false;
    }
    return true;
  }
  for (int64_t i = 0; i < n; ++i)
    if (!each(elementAsDouble(t, i)))
      return false;
  return true;
}

bool isOnCircle(const Tensor &a, int64_t i, const Tensor &b, int64_t j) {
  double x = elementAsDouble(a, i), y = elementAsDouble(b, j);
  // The tolerance allows for 16-bit tables and for tables rounded before they were stored.
  return std::fabs(x * x + y * y - 1) < (dtypeBytes(a.type.dtype) == 2 ? 2e-2 : 1e-4);
}

// A single row, or a table of zeros and ones, can lie on the circle by chance.
constexpr int64_t kFewest = 16;

bool variesWithinUnit(const Tensor &t) {
  bool varies = false;
  bool within = allElements(t, [&](double v) {
    varies |= v != 0 && std::fabs(v) != 1;
    return std::fabs(v) <= 1.001;
  });
  return varies && within;
}

} // namespace

bool looksLikeMask(const Tensor &t) {
  constexpr double kStandsForInfinity = 1e30, kLarge = -1000;
  if (!isFloat(t.type.dtype))
    return false;
  double large = 0;
  bool isTwoValued = true, hasInfinity = false;
  allElements(t, [&](double v) {
    if (v <= kLarge && large == 0)
      large = v;
    isTwoValued &= v == 0 || v == large;
    hasInfinity = std::fabs(v) >= kStandsForInfinity;
    return !hasInfinity;
  });
  return hasInfinity || (isTwoValued && large != 0);
}

bool looksLikePositions(const Tensor &t) {
  const Dims &d = t.type.dims;
  if (!isFloat(t.type.dtype) || d.size() < 2 || d.back() % 2 || t.type.elements() < kFewest)
    return false;
  int64_t columns = d.back(), rows = t.type.elements() / columns;
  auto areCircles = [&](int64_t step, int64_t apart) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < columns / 2; ++i)
        if (!isOnCircle(t, r * columns + i * step, t, r * columns + i * step + apart))
          return false;
    return true;
  };
  return (areCircles(2, 1) || areCircles(1, columns / 2)) && variesWithinUnit(t);
}

bool looksLikeSineAndCosine(const Tensor &a, const Tensor &b) {
  if (!isFloat(a.type.dtype) || a.type.rank() < 2 || a.type != b.type ||
      a.type.elements() < kFewest)
    return false;
  for (int64_t i = 0, n = a.type.elements(); i < n; ++i)
    if (!isOnCircle(a, i, b, i))
      return false;
  return variesWithinUnit(a);
}

} // namespace isthmus::onnx_import
