// Operands are often larger than the caches, and a thin product reads each element a few times
// only: packing then takes as long as the product. So reads are long, elements are fetched ahead of
// their use, and transposes stay in registers.

#include "kernels/gemm/pack.h"

#include <algorithm>
#if defined(__x86_64__)
// The intrinsics have undefined operands where masks are full, and GCC 12 takes these for mistakes.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace isthmus::gemm {
namespace {

void fetch(const float *p) { __builtin_prefetch(p, 0, 3); }

// --- rows or columns that lie side by side

// Packs panels whose elements k are contiguous. Several panels are packed at once, because the
// hardware's prefetcher needs long reads.
template <int64_t width>
void packSideBySide(const Strip &from, int64_t count, int64_t depth, float *to, int64_t panelStep) {
  constexpr int64_t kAtOnce = 16 * width, kAhead = 4, kLine = 16;
  for (int64_t first = 0; first < count; first += kAtOnce, to += 16 * panelStep)
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t end = std::min(count, first + kAtOnce);
      const float *row = from.data + k * from.inner;
      float *at = to + k * width;
      for (int64_t i = first; i < end; i += width, at += panelStep) {
        for (int64_t j = 0; j < width; j += kLine)
          fetch(row + i + j + kAhead * from.inner);
        if (end - i >= width) {
          std::copy_n(row + i, width, at);
        } else {
          std::copy_n(row + i, end - i, at);
          std::fill(at + (end - i), at + width, 0.0f);
        }
      }
    }
}

// --- rows or columns whose elements k are contiguous

// Transposes four by four elements: from[i * along + k] goes to to[k * width + i].
void transpose4(const float *from, int64_t along, float *to, int64_t width) {
#if defined(__x86_64__)
  __m128 r0 = _mm_loadu_ps(from), r1 = _mm_loadu_ps(from + along),
         r2 = _mm_loadu_ps(from + 2 * along), r3 = _mm_loadu_ps(from + 3 * along);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(to, r0);
  _mm_storeu_ps(to + width, r1);
  _mm_storeu_ps(to + 2 * width, r2);
  _mm_storeu_ps(to + 3 * width, r3);
#else
  for (int64_t i = 0; i < 4; ++i)
    for (int64_t k = 0; k < 4; ++k)
      to[k * width + i] = from[i * along + k];
#endif
}

#if defined(__x86_64__)
// The same for `rows` by sixteen elements; `rows` is at most 16. Fetches the elements `ahead`
// floats further on, unless that is zero.
template <int rows>
__attribute__((target("avx512f"))) void transpose16(const float *from, int64_t along, float *to,
                                                    int64_t width, int64_t ahead) {
  __m512 x[16], y[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    x[i] = i < rows ? _mm512_loadu_ps(from + i * along) : _mm512_setzero_ps();
    if (i < rows && ahead)
      fetch(from + i * along + ahead);
  }
  // In each lane of four elements, four by four are transposed: lane l of y[4 g + c] becomes the
  // elements k = 4 l + c of rows 4 g to 4 g + 3.
#pragma GCC unroll 4
  for (int g = 0; g < 16; g += 4) {
    const __m512d low01 = _mm512_castps_pd(_mm512_unpacklo_ps(x[g], x[g + 1])),
                  high01 = _mm512_castps_pd(_mm512_unpackhi_ps(x[g], x[g + 1])),
                  low23 = _mm512_castps_pd(_mm512_unpacklo_ps(x[g + 2], x[g + 3])),
                  high23 = _mm512_castps_pd(_mm512_unpackhi_ps(x[g + 2], x[g + 3]));
    y[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(low01, low23));
    y[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low01, low23));
    y[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(high01, high23));
    y[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(high01, high23));
  }
  const __mmask16 stored = __mmask16((1u << rows) - 1);
  // Then lanes are transposed.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even0 = _mm512_shuffle_f32x4(y[c], y[4 + c], 0x88),
                 odd0 = _mm512_shuffle_f32x4(y[c], y[4 + c], 0xdd),
                 even1 = _mm512_shuffle_f32x4(y[8 + c], y[12 + c], 0x88),
                 odd1 = _mm512_shuffle_f32x4(y[8 + c], y[12 + c], 0xdd);
    float *at = to + c * width;
    _mm512_mask_storeu_ps(at, stored, _mm512_shuffle_f32x4(even0, even1, 0x88));
    _mm512_mask_storeu_ps(at + 4 * width, stored, _mm512_shuffle_f32x4(odd0, odd1, 0x88));
    _mm512_mask_storeu_ps(at + 8 * width, stored, _mm512_shuffle_f32x4(even0, even1, 0xdd));
    _mm512_mask_storeu_ps(at + 12 * width, stored, _mm512_shuffle_f32x4(odd0, odd1, 0xdd));
  }
}

bool hasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f");
  return has;
}
#endif

// Transposes the first elements of a whole panel, 16 at a time; returns how many.
int64_t transposeWhole(const Strip &from, int64_t width, int64_t depth, float *to) {
  int64_t k = 0;
#if defined(__x86_64__)
  if (hasAvx512() && width == 12)
    for (; k + 16 <= depth; k += 16)
      transpose16<12>(from.data + k, from.along, to + k * width, width, 0);
  else if (hasAvx512() && width % 16 == 0)
    for (; k + 16 <= depth; k += 16)
      for (int64_t i = 0; i < width; i += 16)
        transpose16<16>(from.data + i * from.along + k, from.along, to + k * width + i, width,
                        width * from.along); // of the next panel
#endif
  return k;
}

// Packs one panel of `count` rows or columns.
void packPanel(const Strip &from, int64_t count, int64_t width, int64_t depth, float *to) {
  const bool areContiguous = from.inner == 1;
  int64_t k = areContiguous && count == width ? transposeWhole(from, width, depth, to) : 0;
  const int64_t fours = areContiguous ? count / 4 * 4 : 0, deep = depth / 4 * 4;
  for (int64_t k4 = k; k4 < deep; k4 += 4)
    for (int64_t i = 0; i < fours; i += 4)
      transpose4(from.data + i * from.along + k4, from.along, to + k4 * width + i, width);
  for (; k < depth; ++k)
    for (int64_t i = k < deep ? fours : 0; i < width; ++i)
      to[k * width + i] = i < count ? from.data[i * from.along + k * from.inner] : 0;
}

} // namespace

void packPanels(const Strip &from, int64_t count, int64_t width, int64_t depth, float *to,
                int64_t panelStep) {
  if (from.along == 1) {
    switch (width) {
    case 6:
      return packSideBySide<6>(from, count, depth, to, panelStep);
    case 12:
      return packSideBySide<12>(from, count, depth, to, panelStep);
    case 16:
      return packSideBySide<16>(from, count, depth, to, panelStep);
    case 32:
      return packSideBySide<32>(from, count, depth, to, panelStep);
    }
  }
  for (int64_t i = 0; i < count; i += width, to += panelStep)
    packPanel({from.data + i * from.along, from.along, from.inner}, std::min(width, count - i),
              width, depth, to);
}

} // namespace isthmus::gemm
