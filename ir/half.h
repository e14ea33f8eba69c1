// Conversions between float and the bits of the two 16-bit floating-point types. Plain functions,
// for any compiler.
#pragma once

#include <cstdint>
#include <cstring>

namespace isthmus {

inline uint32_t bitsOfFloat(float f) {
  uint32_t u;
  std::memcpy(&u, &f, sizeof u);
  return u;
}
inline float floatOfBits(uint32_t u) {
  float f;
  std::memcpy(&f, &u, sizeof f);
  return f;
}

inline float bf16ToFloat(uint16_t h) { return floatOfBits(uint32_t(h) << 16); }

// Rounds to nearest, ties to even; a NaN stays a NaN.
inline uint16_t floatToBF16(float f) {
  uint32_t u = bitsOfFloat(f);
  if ((u & 0x7fffffff) > 0x7f800000)
    return uint16_t(u >> 16 | 0x40);
  return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

inline float f16ToFloat(uint16_t h) {
  uint32_t sign = uint32_t(h & 0x8000) << 16, exponent = h >> 10 & 0x1f, fraction = h & 0x3ff;
  if (exponent == 0x1f)
    return floatOfBits(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) // zero or subnormal: fraction * 2^-24, exact in float
    return floatOfBits(sign | bitsOfFloat(float(fraction) * 0x1p-24f));
  return floatOfBits(sign | (exponent + 112) << 23 | fraction << 13);
}

// Rounds to nearest, ties to even; a NaN stays a NaN, and values that are too large become
// infinite.
inline uint16_t floatToF16(float f) {
  uint32_t u = bitsOfFloat(f), sign = u >> 16 & 0x8000, size = u & 0x7fffffff;
  if (size > 0x7f800000)
    return uint16_t(sign | 0x7e00 | (size >> 13 & 0x1ff));
  if (size >= 0x477ff000) // from 65520, halfway between the largest finite value and the next step
    return uint16_t(sign | 0x7c00);
  if (size < 0x38800000) // below 2^-14: adding 0.5 rounds to a multiple of 2^-24
    return uint16_t(sign | (bitsOfFloat(floatOfBits(size) + 0.5f) - 0x3f000000));
  uint32_t rounded = size + 0xfff + (size >> 13 & 1);
  return uint16_t(sign | (rounded - (112u << 23)) >> 13);
}

} // namespace isthmus
