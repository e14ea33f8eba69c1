#include "ir/float_range.h"

#include "ir/check.h"
#include "ir/element.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace isthmus {

FloatRange rangeOf(DType t) {
  const auto of = [](auto limits) {
    return FloatRange{double(limits.max()), double(limits.denorm_min())};
  };
  switch (t) {
  case DType::F32:
    return of(std::numeric_limits<float>());
  case DType::F64:
    return of(std::numeric_limits<double>());
  case DType::BF16:
    return {0x1.fep127, 0x1p-133};
  case DType::F16:
    return {65504, 0x1p-24};
  default:
    ISTHMUS_UNREACHABLE("a type that is no float type");
  }
}

Tensor roundedTo(const Tensor &from, DType to) {
  if (from.type.dtype == to)
    return from;
  const double most = rangeOf(to).largest;
  return Tensor::make(from.type.with(to), [&](char *data) {
    for (int64_t i = 0, n = from.type.elements(); i < n; ++i) {
      const double v = elementAsDouble(from, i);
      setElement(to, data, i, std::isfinite(v) ? std::clamp(v, -most, most) : v);
    }
  });
}

} // namespace isthmus
