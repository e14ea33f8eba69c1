#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <omp.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isthmus::gemm {
namespace {

constexpr int64_t kDepth = 256;

// What lies in packed form at once: rows of a by columns of b, kDepth deep. A megabyte each at
// most, so that they stay in the outer caches.
constexpr int64_t kMostRows = 1008, kMostColumns = 1024;

int64_t roundedUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// The kernel in registers: a tile of `rows` by `columns` of the result. `a` holds, for each step of
// the inner axis, `rows` elements, `b` `columns` of them.
struct Tile {
  int64_t rows, columns;
  void (*run)(int64_t depth, const float *a, const float *b, float *result, int64_t step, bool add);
};

#if defined(__x86_64__)
constexpr int64_t kRows512 = 12, kRows256 = 6;

__attribute__((target("avx512f"))) void tile512(int64_t depth, const float *a, const float *b,
                                                float *result, int64_t step, bool add) {
  __m512 sum[kRows512][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows512; ++r)
    sum[r][0] = sum[r][1] = _mm512_setzero_ps();
  for (int64_t k = 0; k < depth; ++k, a += kRows512, b += 32) {
    __m512 b0 = _mm512_load_ps(b), b1 = _mm512_load_ps(b + 16);
#pragma GCC unroll 12
    for (int r = 0; r < kRows512; ++r) {
      __m512 x = _mm512_set1_ps(a[r]);
      sum[r][0] = _mm512_fmadd_ps(x, b0, sum[r][0]);
      sum[r][1] = _mm512_fmadd_ps(x, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows512; ++r)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      float *to = result + r * step + i * 16;
      _mm512_storeu_ps(to, add ? _mm512_add_ps(_mm512_loadu_ps(to), sum[r][i]) : sum[r][i]);
    }
}

__attribute__((target("avx2,fma"))) void tile256(int64_t depth, const float *a, const float *b,
                                                 float *result, int64_t step, bool add) {
  __m256 sum[kRows256][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows256; ++r)
    sum[r][0] = sum[r][1] = _mm256_setzero_ps();
  for (int64_t k = 0; k < depth; ++k, a += kRows256, b += 16) {
    __m256 b0 = _mm256_load_ps(b), b1 = _mm256_load_ps(b + 8);
#pragma GCC unroll 6
    for (int r = 0; r < kRows256; ++r) {
      __m256 x = _mm256_broadcast_ss(a + r);
      sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]);
      sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]);
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < kRows256; ++r)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      float *to = result + r * step + i * 8;
      _mm256_storeu_ps(to, add ? _mm256_add_ps(_mm256_loadu_ps(to), sum[r][i]) : sum[r][i]);
    }
}

const Tile *findTile() {
  static const Tile wide = {kRows512, 32, tile512}, narrow = {kRows256, 16, tile256};
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f"))
    return &wide;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return &narrow;
  return nullptr;
}
#else
const Tile *findTile() { return nullptr; }
#endif

const Tile *tile() {
  static const Tile *t = findTile();
  return t;
}

constexpr int64_t kMostTile = 32 * 12;

// One panel: `width` neighbours along the axis of step `along` (the tile's rows or columns),
// `depth` along the inner axis. Missing ones, past `count`, are zeros.
void packPanel(const float *from, int64_t along, int64_t inner, int64_t count, int64_t width,
               int64_t depth, float *to) {
  if (count == width && along == 1) {
    for (int64_t k = 0; k < depth; ++k)
      std::copy_n(from + k * inner, width, to + k * width);
    return;
  }
  // Transposed in squares, so that both sides stay within few cache lines.
  constexpr int64_t kSquare = 16;
  for (int64_t k0 = 0; k0 < depth; k0 += kSquare) {
    int64_t k1 = std::min(k0 + kSquare, depth);
    for (int64_t i = 0; i < width; ++i)
      for (int64_t k = k0; k < k1; ++k)
        to[k * width + i] = i < count ? from[i * along + k * inner] : 0;
  }
}

// The block of one step over rows, columns and depth; all threads of the team call it.
struct Block {
  const Tile &t;
  int64_t rows, columns, depth;
  Matrix a, b; // at the block's corner
  float *result;
  int64_t step;
  float *packedA, *packedB;
  bool add; // not the first step of the inner axis

  int64_t rowPanels() const { return (rows + t.rows - 1) / t.rows; }
  int64_t columnPanels() const { return (columns + t.columns - 1) / t.columns; }

  void packRows(int64_t begin, int64_t end) const {
    for (int64_t p = begin; p < end; ++p)
      packPanel(a.data + p * t.rows * a.rowStep, a.rowStep, a.columnStep,
                std::min(t.rows, rows - p * t.rows), t.rows, depth, packedA + p * t.rows * depth);
  }
  void packColumns(int64_t begin, int64_t end) const {
    for (int64_t p = begin; p < end; ++p)
      packPanel(b.data + p * t.columns * b.columnStep, b.columnStep, b.rowStep,
                std::min(t.columns, columns - p * t.columns), t.columns, depth,
                packedB + p * t.columns * depth);
  }

  void multiply(int64_t rowBegin, int64_t rowEnd, int64_t columnBegin, int64_t columnEnd) const {
    // A panel of rows stays in the nearest cache, and the result is written row by row.
    for (int64_t i = rowBegin; i < rowEnd; ++i)
      for (int64_t j = columnBegin; j < columnEnd; ++j)
        multiplyTile(i, j);
  }

private:
  void multiplyTile(int64_t i, int64_t j) const {
    const float *pa = packedA + i * t.rows * depth, *pb = packedB + j * t.columns * depth;
    float *to = result + i * t.rows * step + j * t.columns;
    int64_t height = std::min(t.rows, rows - i * t.rows),
            width = std::min(t.columns, columns - j * t.columns);
    if (height == t.rows && width == t.columns)
      return t.run(depth, pa, pb, to, step, add);
    alignas(64) float edge[kMostTile];
    t.run(depth, pa, pb, edge, t.columns, /*add=*/false);
    for (int64_t r = 0; r < height; ++r)
      for (int64_t c = 0; c < width; ++c)
        to[r * step + c] =
            add ? to[r * step + c] + edge[r * t.columns + c] : edge[r * t.columns + c];
  }
};

// How a team shares out the tiles: as a grid of threads whose largest share is least.
struct Grid {
  int64_t rows = 1, columns = 1;

  Grid(int threads, int64_t rowPanels, int64_t columnPanels) {
    int64_t best = INT64_MAX;
    for (int64_t r = 1; r <= threads; ++r) {
      if (threads % r != 0)
        continue;
      int64_t c = threads / r, share = ((rowPanels + r - 1) / r) * ((columnPanels + c - 1) / c);
      if (share < best) {
        best = share;
        rows = r;
        columns = c;
      }
    }
  }
};

} // namespace

bool isAvailable() { return tile() != nullptr; }

int64_t packedFloats(const Sizes &s, int) {
  int64_t depth = std::min(s.inner, kDepth);
  return depth * (std::min(kMostRows, roundedUp(s.rows, tile()->rows)) +
                  std::min(kMostColumns, roundedUp(s.columns, tile()->columns))) +
         16; // the second part is aligned too
}

void multiply(const Sizes &s, const Matrix &a, const Matrix &b, float *result, int64_t step,
              float *packed, int threads) {
  const Tile &t = *tile();
  // The barriers of a team cost more than a small product.
  if (double(s.rows) * double(s.columns) * double(s.inner) < 1e5)
    threads = 1;
  int64_t mostRows = kMostRows / t.rows * t.rows;
  int64_t sizeA =
      roundedUp(std::min(s.inner, kDepth) * std::min(mostRows, roundedUp(s.rows, t.rows)), 16);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    auto share = [&](int64_t n, int64_t part, int64_t parts) { return n * part / parts; };
    for (int64_t j = 0; j < s.columns; j += kMostColumns)
      for (int64_t k = 0; k < s.inner; k += kDepth)
        for (int64_t i = 0; i < s.rows; i += mostRows) {
          Block block = {t,
                         std::min(mostRows, s.rows - i),
                         std::min(kMostColumns, s.columns - j),
                         std::min(kDepth, s.inner - k),
                         {a.data + i * a.rowStep + k * a.columnStep, a.rowStep, a.columnStep},
                         {b.data + k * b.rowStep + j * b.columnStep, b.rowStep, b.columnStep},
                         result + i * step + j,
                         step,
                         packed,
                         packed + sizeA,
                         k > 0};
          int64_t rowPanels = block.rowPanels(), columnPanels = block.columnPanels();
          block.packRows(share(rowPanels, me, team), share(rowPanels, me + 1, team));
          if (i == 0)
            block.packColumns(share(columnPanels, me, team), share(columnPanels, me + 1, team));
#pragma omp barrier
          Grid grid(int(team), rowPanels, columnPanels);
          int64_t r = me / grid.columns, c = me % grid.columns;
          block.multiply(share(rowPanels, r, grid.rows), share(rowPanels, r + 1, grid.rows),
                         share(columnPanels, c, grid.columns),
                         share(columnPanels, c + 1, grid.columns));
#pragma omp barrier
        }
  }
}

} // namespace isthmus::gemm
