#include "ir/element.h"

#include "ir/half.h"
#include <cstring>

namespace isthmus {
namespace {

// Files give bytes at any address.
template <typename T> T load(const Tensor &t, int64_t i) {
  T v;
  std::memcpy(&v, t.data + i * int64_t(sizeof v), sizeof v);
  return v;
}

} // namespace

double elementAsDouble(const Tensor &t, int64_t i) {
  switch (t.type.dtype) {
  case DType::F32:
    return load<float>(t, i);
  case DType::F64:
    return load<double>(t, i);
  case DType::BF16:
    return bf16ToFloat(load<uint16_t>(t, i));
  case DType::F16:
    return f16ToFloat(load<uint16_t>(t, i));
  default:
    return double(elementAsInt(t, i));
  }
}

int64_t elementAsInt(const Tensor &t, int64_t i) {
  switch (t.type.dtype) {
  case DType::I32:
    return load<int32_t>(t, i);
  case DType::I64:
    return load<int64_t>(t, i);
  default:
    return load<uint8_t>(t, i); // u8 and bool
  }
}

} // namespace isthmus
