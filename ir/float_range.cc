#include "ir/float_range.h"

#include "ir/check.h"
#include "ir/element.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace isthmus {

double largestFinite(DType t) {
  switch (t) {
  case DType::F32:
    return std::numeric_limits<float>::max();
  case DType::F64:
    return std::numeric_limits<double>::max();
  case DType::BF16:
    return 0x1.fep127;
  case DType::F16:
    return 65504;
  default:
    ISTHMUS_UNREACHABLE("a type that is no float type");
  }
}

double leastPositive(DType t) {
  switch (t) {
  case DType::F32:
    return std::numeric_limits<float>::denorm_min();
  case DType::F64:
    return std::numeric_limits<double>::denorm_min();
  case DType::BF16:
    return 0x1p-133;
  case DType::F16:
    return 0x1p-24;
  default:
    ISTHMUS_UNREACHABLE("a type that is no float type");
  }
}

Tensor roundedTo(const Tensor &from, DType to) {
  if (from.type.dtype == to)
    return from;
  const double most = largestFinite(to);
  return Tensor::make(from.type.with(to), [&](char *data) {
    for (int64_t i = 0, n = from.type.elements(); i < n; ++i) {
      const double v = elementAsDouble(from, i);
      setElement(to, data, i, std::isfinite(v) ? std::clamp(v, -most, most) : v);
    }
  });
}

} // namespace isthmus
