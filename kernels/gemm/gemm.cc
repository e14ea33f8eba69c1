#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pack.h"

#include <algorithm>
#include <omp.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace isthmus::gemm {
namespace {

constexpr int64_t kDepth = 256;

// Limits of the packed blocks: rows of a and columns of b, each kDepth deep. A block takes at most
// a megabyte, so that it stays in the outer caches.
constexpr int64_t kMostRows = 1008, kMostColumns = 1024;

int64_t roundedUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// What a tile's sums begin with, and what becomes of them: they begin with zeros and replace the
// contents, begin with zeros and are added to the contents, or go on from the contents.
enum class Sums { New, Added, GoOn };

// The register kernel, which computes a tile of `rows` by `columns` of the result. For each step of
// the inner axis `a` holds `rows` elements and `b` holds `columns`.
struct Tile {
  int64_t rows, columns;
  void (*run)(int64_t depth, const float *a, const float *b, float *result, int64_t step,
              Sums sums);
};

#if defined(__x86_64__)
constexpr int64_t kRows512 = 12, kRows256 = 6;

__attribute__((target("avx512f"))) void tile512(int64_t depth, const float *a, const float *b,
                                                float *result, int64_t step, Sums sums) {
  __m512 sum[kRows512][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows512; ++r)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      sum[r][i] =
          sums == Sums::GoOn ? _mm512_loadu_ps(result + r * step + i * 16) : _mm512_setzero_ps();
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
      _mm512_storeu_ps(to, sums == Sums::Added ? _mm512_add_ps(_mm512_loadu_ps(to), sum[r][i])
                                               : sum[r][i]);
    }
}

__attribute__((target("avx2,fma"))) void tile256(int64_t depth, const float *a, const float *b,
                                                 float *result, int64_t step, Sums sums) {
  __m256 sum[kRows256][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows256; ++r)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i)
      sum[r][i] =
          sums == Sums::GoOn ? _mm256_loadu_ps(result + r * step + i * 8) : _mm256_setzero_ps();
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
      _mm256_storeu_ps(to, sums == Sums::Added ? _mm256_add_ps(_mm256_loadu_ps(to), sum[r][i])
                                               : sum[r][i]);
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

// A product's operands, and their division into panels.
struct Product {
  const Tile &t;
  const Sizes &s;
  const Matrix &a, &b;
  const Result &result;

  int64_t rowPanels() const { return (s.rows + t.rows - 1) / t.rows; }
  // A panel of columns never crosses from one run to the next.
  int64_t panelsInRun() const { return (s.columnsInRun() + t.columns - 1) / t.columns; }
  int64_t columnPanels() const {
    return s.columns == 0 ? 0 : s.columns / s.columnsInRun() * panelsInRun();
  }
  int64_t rowCount(int64_t panel) const { return std::min(t.rows, s.rows - panel * t.rows); }
  int64_t columnInRun(int64_t panel) const { return panel % panelsInRun() * t.columns; }
  int64_t columnCount(int64_t panel) const {
    return std::min(t.columns, s.columnsInRun() - columnInRun(panel));
  }

  // Packs row panels [begin, end) for inner positions [k, k + depth), run by run.
  void packRows(int64_t begin, int64_t end, int64_t k, int64_t depth, float *to) const {
    const float *from = a.data + begin * t.rows * a.rowStep;
    const int64_t count = std::min(end * t.rows, s.rows) - begin * t.rows;
    forEachRun(k, depth, [&](int64_t run, int64_t at, int64_t n) {
      packPanels({from + at * a.columnStep + run * a.jump, a.rowStep, a.columnStep}, count, t.rows,
                 n, to, depth * t.rows);
      to += n * t.rows;
    });
  }
  // The same for column panels.
  void packColumns(int64_t begin, int64_t end, int64_t k, int64_t depth, float *to) const {
    for (int64_t panel = begin, next; panel < end; panel = next) {
      const int64_t run = panel / panelsInRun(), column = columnInRun(panel);
      next = std::min(end, (run + 1) * panelsInRun());
      const float *from = b.data + column * b.columnStep + (s.columnRun ? run * b.jump : 0);
      const int64_t count = std::min((next - panel) * t.columns, s.columnsInRun() - column);
      float *at = to + (panel - begin) * t.columns * depth;
      forEachRun(k, depth, [&](int64_t part, int64_t row, int64_t n) {
        packPanels({from + row * b.rowStep + part * b.jump, b.columnStep, b.rowStep}, count,
                   t.columns, n, at, depth * t.columns);
        at += n * t.columns;
      });
    }
  }

  // Computes the share of inner positions [k, k + depth) in the tile at row panel i and column
  // panel j, from packed panels.
  void multiplyTile(int64_t i, int64_t j, int64_t k, int64_t depth, const float *pa,
                    const float *pb) const {
    int64_t run = j / panelsInRun(), column = columnInRun(j);
    float *to = result.data + i * t.rows * result.step + column + run * result.jump;
    int64_t height = rowCount(i), width = columnCount(j);
    const Sums sums = !result.add && k == 0 ? Sums::New : result.isChain ? Sums::GoOn : Sums::Added;
    addProduct(height, width, depth, pa, pb, to, sums);
    if (result.bias && k + depth == s.inner)
      for (int64_t r = 0; r < height; ++r) // the tile is still in the L1 cache
        for (int64_t c = 0; c < width; ++c)
          to[r * result.step + c] += result.bias[run * s.columnsInRun() + column + c];
  }

private:
  void addProduct(int64_t height, int64_t width, int64_t depth, const float *pa, const float *pb,
                  float *to, Sums sums) const {
    if (height == t.rows && width == t.columns)
      return t.run(depth, pa, pb, to, result.step, sums);
    alignas(64) float edge[kMostTile];
    for (int64_t r = 0; sums != Sums::New && r < height; ++r)
      std::copy_n(to + r * result.step, width, edge + r * t.columns);
    t.run(depth, pa, pb, edge, t.columns, sums);
    for (int64_t r = 0; r < height; ++r)
      std::copy_n(edge + r * t.columns, width, to + r * result.step);
  }

  template <typename F> void forEachRun(int64_t k, int64_t depth, F f) const {
    int64_t run = s.innerInRun();
    for (int64_t end = k + depth; k < end;) {
      int64_t n = std::min(end - k, run - k % run);
      f(k / run, k % run, n);
      k += n;
    }
  }
};

// Distributes tiles over a team: the grid of threads whose largest share is smallest.
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

int64_t packedFloats(const Sizes &s) {
  const Tile &t = *tile();
  static const Matrix none = {};
  Product p{t, s, none, none, Result{}};
  int64_t depth = std::min(s.inner, kDepth);
  return roundedUp(depth * std::min(kMostRows / t.rows, p.rowPanels()) * t.rows, 16) +
         depth * std::min(kMostColumns / t.columns, p.columnPanels()) * t.columns;
}

void multiply(const Sizes &s, const Matrix &a, const Matrix &b, const Result &result, float *packed,
              int threads) {
  const Tile &t = *tile();
  const Product p{t, s, a, b, result};
  // The barriers of a team cost more than a small product.
  if (double(s.rows) * double(s.columns) * double(s.inner) < 1e5)
    threads = 1;
  const int64_t rowPanels = p.rowPanels(), columnPanels = p.columnPanels();
  const int64_t mostRows = kMostRows / t.rows, mostColumns = kMostColumns / t.columns; // in panels
  float *packedB =
      packed + roundedUp(std::min(s.inner, kDepth) * std::min(mostRows, rowPanels) * t.rows, 16);
#pragma omp parallel num_threads(threads) if (threads > 1)
  {
    int64_t team = omp_get_num_threads(), me = omp_get_thread_num();
    auto share = [](int64_t n, int64_t part, int64_t parts) { return n * part / parts; };
    for (int64_t j0 = 0; j0 < columnPanels; j0 += mostColumns)
      for (int64_t k = 0; k < s.inner; k += kDepth)
        for (int64_t i0 = 0; i0 < rowPanels; i0 += mostRows) {
          int64_t depth = std::min(kDepth, s.inner - k);
          int64_t rows = std::min(mostRows, rowPanels - i0),
                  columns = std::min(mostColumns, columnPanels - j0);
          p.packRows(i0 + share(rows, me, team), i0 + share(rows, me + 1, team), k, depth,
                     packed + share(rows, me, team) * t.rows * depth);
          if (i0 == 0)
            p.packColumns(j0 + share(columns, me, team), j0 + share(columns, me + 1, team), k,
                          depth, packedB + share(columns, me, team) * t.columns * depth);
#pragma omp barrier
          Grid grid(int(team), rows, columns);
          int64_t r = me / grid.columns, c = me % grid.columns;
          // A row panel stays in the L1 cache, and the result is written row by row.
          for (int64_t i = share(rows, r, grid.rows); i < share(rows, r + 1, grid.rows); ++i)
            for (int64_t j = share(columns, c, grid.columns);
                 j < share(columns, c + 1, grid.columns); ++j)
              p.multiplyTile(i0 + i, j0 + j, k, depth, packed + i * t.rows * depth,
                             packedB + j * t.columns * depth);
#pragma omp barrier
        }
  }
}

} // namespace isthmus::gemm
