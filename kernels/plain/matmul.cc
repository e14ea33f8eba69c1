// The matrix product, blocked for the caches. Each element of the result is one sum over the inner
// axis in ascending order, from zero or from what is added to, rounded at every step to the compute
// type; the bias is added last.
// Neither blocking nor vector width changes a bit of it.

#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"
#include <cstring>

namespace isthmus::plain {
namespace {

// The register tile: six rows of the result by two vectors.
template <typename C> using Vector __attribute__((vector_size(32))) = C;
template <typename C> constexpr int64_t kLanes = 32 / sizeof(C);
constexpr int64_t kRows = 6;
template <typename C> constexpr int64_t kColumns = 2 * kLanes<C>;

// One thread computes a tile of the result, in steps of `kDepth` along the inner axis, from packed
// blocks of both operands. All three are on the stack: some 200 KiB of floats.
constexpr int64_t kTileRows = 20 * kRows, kTileColumns = 128, kDepth = 128;

// A matrix in an operand: element (i, j) is at data[i * rowStride + j * columnStride].
template <typename T> struct Matrix {
  const T *data;
  int64_t rowStride, columnStride;
};

// Packs rows [r0, r0 + rows) and columns [c0, c0 + columns) as panels of `W` rows. In a panel the
// elements of a column are contiguous. Rows past the end become zeros.
template <int64_t W, typename T, typename C>
void pack(const Matrix<T> &m, int64_t r0, int64_t rows, int64_t c0, int64_t columns, C *to) {
  const T *from = m.data + r0 * m.rowStride + c0 * m.columnStride;
  for (int64_t panel = 0; panel < rows; panel += W, to += W * columns) {
    int64_t height = std::min(W, rows - panel);
    const T *top = from + panel * m.rowStride;
    if (height == W && m.rowStride == 1) {
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t r = 0; r < W; ++r)
          to[c * W + r] = C(top[c * m.columnStride + r]);
      continue;
    }
    for (int64_t r = 0; r < W; ++r)
      for (int64_t c = 0; c < columns; ++c)
        to[c * W + r] = r < height ? C(top[r * m.rowStride + c * m.columnStride]) : C(0);
  }
}

// acc += a b for panels of `depth` columns. Multiplication and addition are not fused: with fused
// steps the bits would depend on the machine.
template <typename C>
void multiplyPanels(const C *a, const C *b, int64_t depth, C *acc, int64_t step) {
  using V = Vector<C>;
  constexpr int64_t n = kLanes<C>;
  V sum[kRows][2];
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < 2; ++c)
      std::memcpy(&sum[r][c], acc + r * step + c * n, sizeof(V));
  for (int64_t k = 0; k < depth; ++k) {
    V b0, b1;
    std::memcpy(&b0, b + k * 2 * n, sizeof(V));
    std::memcpy(&b1, b + k * 2 * n + n, sizeof(V));
    for (int64_t r = 0; r < kRows; ++r) {
      C one = a[k * kRows + r];
      sum[r][0] += one * b0;
      sum[r][1] += one * b1;
    }
  }
  for (int64_t r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < 2; ++c)
      std::memcpy(acc + r * step + c * n, &sum[r][c], sizeof(V));
}

// `from` holds what the sums start with, in the layout of y; null: zeros.
template <typename T, typename Out>
void multiplyTile(const Matrix<T> &a, const Matrix<T> &b, const Out *from, const T *bias,
                  int64_t inner, int64_t rows, int64_t columns, Out *y, int64_t stepY) {
  using C = Compute<T>;
  alignas(64) C acc[kTileRows * kTileColumns], packedA[kTileRows * kDepth],
      packedB[kTileColumns * kDepth];
  std::fill(acc, acc + kTileRows * kTileColumns, C(0));
  for (int64_t i = 0; from && i < rows; ++i)
    std::copy_n(from + i * stepY, columns, acc + i * kTileColumns);
  Matrix<T> bColumns = {b.data, b.columnStride, b.rowStride};
  for (int64_t k = 0; k < inner; k += kDepth) {
    int64_t depth = std::min(kDepth, inner - k);
    pack<kRows>(a, 0, rows, k, depth, packedA);
    pack<kColumns<C>>(bColumns, 0, columns, k, depth, packedB);
    for (int64_t j = 0; j < columns; j += kColumns<C>)
      for (int64_t i = 0; i < rows; i += kRows)
        multiplyPanels(packedA + i * depth, packedB + j * depth, depth, acc + i * kTileColumns + j,
                       kTileColumns);
  }
  for (int64_t i = 0; i < rows; ++i) {
    const C *sums = acc + i * kTileColumns;
    for (int64_t j = 0; j < columns; ++j)
      y[i * stepY + j] = static_cast<Out>(bias ? sums[j] + C(bias[j]) : sums[j]);
  }
}

template <typename T> Matrix<T> matrixAt(const T *data, const Type &t, bool transposed) {
  int64_t columns = t.dims.back();
  return transposed ? Matrix<T>{data, 1, columns} : Matrix<T>{data, columns, 1};
}

// `first`: the operand that is the first factor. An operand before it is what is added to.
template <size_t first, typename T, typename Out>
void multiply(const OpCall &call, const KernelArgs &args) {
  bool ta = call.attrs->getBool("transpose_a"), tb = call.attrs->getBool("transpose_b");
  const Type &typeA = call.operands[first], &typeB = call.operands[first + 1],
             &typeY = call.results[0];
  int64_t rows = typeY.dims[typeY.rank() - 2], columns = typeY.dims.back();
  int64_t inner = typeA.dims[typeA.rank() - (ta ? 2 : 1)];
  if (typeY.elements() == 0)
    return;

  // Offsets of each product's operands in the batch.
  auto batchOf = [](const Type &t) { return llvm::makeArrayRef(t.dims).drop_back(2); };
  Walk<2> batch(batchOf(typeY), {broadcastStrides(batchOf(typeA), batchOf(typeY)),
                                 broadcastStrides(batchOf(typeB), batchOf(typeY))});
  int64_t sizeA =
      typeA.elements() / std::max<int64_t>(1, Type(DType::U8, batchOf(typeA)).elements());
  int64_t sizeB =
      typeB.elements() / std::max<int64_t>(1, Type(DType::U8, batchOf(typeB)).elements());

  int64_t down = (rows + kTileRows - 1) / kTileRows,
          across = (columns + kTileColumns - 1) / kTileColumns, tiles = down * across;
  int64_t workPerTile = std::min(rows, kTileRows) * std::min(columns, kTileColumns) * (inner + 1);
  parallelFor(
      batch.elements() * tiles, 8 * kGrain / workPerTile + 1, [&](int64_t begin, int64_t end) {
        for (int64_t task = begin; task < end; ++task)
          batch.forEachRow(
              task / tiles, task / tiles + 1, [&](const std::array<int64_t, 2> &at, int64_t) {
                int64_t i = task % tiles / across * kTileRows,
                        j = task % tiles % across * kTileColumns;
                Matrix<T> a = matrixAt(operand<T>(args, first) + at[0] * sizeA, typeA, ta);
                Matrix<T> b = matrixAt(operand<T>(args, first + 1) + at[1] * sizeB, typeB, tb);
                a.data += i * a.rowStride;
                b.data += j * b.columnStride;
                const int64_t place = task / tiles * rows * columns + i * columns + j;
                const Out *from = first ? operand<Out>(args, 0) + place : nullptr;
                const T *bias =
                    call.operands.size() > first + 2 ? operand<T>(args, first + 2) + j : nullptr;
                Out *y = result<Out>(args, 0) + place;
                vectorised([&] {
                  multiplyTile(a, b, from, bias, inner, std::min(kTileRows, rows - i),
                               std::min(kTileColumns, columns - j), y, columns);
                });
              });
      });
}

template <size_t first> void runMatmul(const OpCall &call, const KernelArgs &args) {
  const DType factors = call.operands[first].dtype;
  dispatchFloat(factors, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (first == 0 || call.results[0].dtype == factors)
      multiply<first, T, T>(call, args);
    else
      multiply<first, T, Compute<T>>(call, args);
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainMatmul(KernelTable &table) {
  table.add({"matmul", "plain", plain::prepareThreaded<plain::runMatmul<0>>});
  table.add({"matmul_add", "plain", plain::prepareThreaded<plain::runMatmul<1>>});
}

} // namespace isthmus
