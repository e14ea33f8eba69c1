#include "ir/element.h"

#include "ir/half.h"
#include <cstring>

namespace isthmus {
namespace {

// Data mapped from files may be unaligned.
template <typename T> T load(const Tensor &t, int64_t i) {
  T v;
  std::memcpy(&v, t.data + i * int64_t(sizeof v), sizeof v);
  return v;
}

template <typename T> void store(char *data, int64_t i, T v) {
  std::memcpy(data + i * int64_t(sizeof v), &v, sizeof v);
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

void setElement(DType t, char *data, int64_t i, double v) {
  switch (t) {
  case DType::F32:
    return store(data, i, float(v));
  case DType::F64:
    return store(data, i, v);
  case DType::BF16:
    return store(data, i, floatToBF16(float(v)));
  case DType::F16:
    return store(data, i, floatToF16(float(v)));
  case DType::I32:
    return store(data, i, int32_t(v));
  case DType::I64:
    return store(data, i, int64_t(v));
  case DType::U8:
    return store(data, i, uint8_t(v));
  case DType::Bool:
    return store(data, i, uint8_t(v != 0));
  case DType::Token:
    return;
  }
}

} // namespace isthmus
