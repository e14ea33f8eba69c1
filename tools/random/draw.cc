#include "tools/random/draw.h"

#include "ir/check.h"
#include "ir/splitmix64.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace isthmus {
namespace {

// Conversions of the 16-bit floats, written independently of the kernels' conversions: by the
// compiler, and by the upper half of a float.
float fromBF16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }
uint16_t toBF16(double v) {

  float f = static_cast<float>(v);
  uint32_t u = std::bit_cast<uint32_t>(f);
  if (std::isnan(f))
    return 0x7fc0;
  uint32_t low = u & 0xffff, up = u >> 16;
  return uint16_t(up + (low > 0x8000 || (low == 0x8000 && (up & 1))));
}

double element(const Tensor &t, int64_t i) {
  switch (t.type.dtype) {
  case DType::F32:
    return t.as<float>()[i];
  case DType::F64:
    return t.as<double>()[i];
  case DType::BF16:
    return fromBF16(t.as<uint16_t>()[i]);
  case DType::F16:
    return t.as<_Float16>()[i];
  case DType::I32:
    return t.as<int32_t>()[i];
  case DType::I64:
    return double(t.as<int64_t>()[i]);
  case DType::U8:
    return t.as<uint8_t>()[i];
  case DType::Bool:
    return t.as<uint8_t>()[i];
  case DType::Token:
    break;
  }
  ISTHMUS_UNREACHABLE("element type");
}

void setElement(DType t, char *data, int64_t i, double v) {
  switch (t) {
  case DType::F32:
    reinterpret_cast<float *>(data)[i] = float(v);
    return;
  case DType::F64:
    reinterpret_cast<double *>(data)[i] = v;
    return;
  case DType::BF16:
    reinterpret_cast<uint16_t *>(data)[i] = toBF16(v);
    return;
  case DType::F16:
    reinterpret_cast<_Float16 *>(data)[i] = _Float16(float(v));
    return;
  case DType::I32:
    reinterpret_cast<int32_t *>(data)[i] = int32_t(v);
    return;
  case DType::I64:
    reinterpret_cast<int64_t *>(data)[i] = int64_t(v);
    return;
  case DType::U8:
    reinterpret_cast<uint8_t *>(data)[i] = uint8_t(v);
    return;
  case DType::Bool:
    reinterpret_cast<uint8_t *>(data)[i] = v != 0;
    return;
  case DType::Token:
    return;
  }
}

} // namespace

Tensor draw(const Type &type, uint64_t seed, const DrawRange &range) {
  return Tensor::make(type, [&](char *data) {
    uint64_t state = seed;
    for (int64_t i = 0; i < type.elements(); ++i) {
      uint64_t word = nextSplitMix64(state);
      double v =
          isFloat(type.dtype) ? range.low + (range.high - range.low) * double(word >> 11) * 0x1p-53
          : type.dtype == DType::Bool ? double(word >> 63)
                                      : double(word % uint64_t(std::max<int64_t>(range.bound, 1)));
      setElement(type.dtype, data, i, v);
    }
  });
}

std::vector<double> toDoubles(const Tensor &t) {
  std::vector<double> out(t.type.elements());
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = element(t, i);
  return out;
}

Tensor fromDoubles(const Type &type, llvm::ArrayRef<double> values) {
  ISTHMUS_CHECK(type.elements() == int64_t(values.size()), "as many values as elements");
  return Tensor::make(type, [&](char *data) {
    for (size_t i = 0; i < values.size(); ++i)
      setElement(type.dtype, data, i, values[i]);
  });
}

bool sameBits(const Tensor &a, const Tensor &b) {
  return a.type == b.type && std::memcmp(a.data, b.data, a.bytes()) == 0;
}

} // namespace isthmus
