// The matrix product for calls that cuBLASLt does not take. A thread computes a few rows of a
// column, in ascending order of the inner axis, rounded at every step as in the plain kernel.

#include "kernels/cuda/copy.h"
#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/register.h"
#include "kernels/cuda/strided.h"

namespace isthmus::cuda {
namespace {

constexpr int kRows = 4; // per thread; the rows share each element read from b

// With `adds` the sums start with `base`, which lies as y does; without, with zeros.
template <typename T, typename Out, bool adds> struct Product {
  const T *a, *b;
  const Out *base;
  const T *bias; // null: none
  Out *y;
  int64_t rows, columns, inner, sizeA, sizeB;
  int64_t rowA, stepA, stepB, columnB; // strides of the matrices
  Strided<2> batch;
  Divisor byColumns, byBlocks; // byBlocks: blocks of kRows rows

  ISTHMUS_GPU void operator()(int64_t i) const {
    using C = Compute<T>;
    int64_t column, block, matrix = byBlocks(byColumns(i, &column), &block), at[2];
    batch.at(matrix, at);
    const T *from = a + at[0] * sizeA, *right = b + at[1] * sizeB + column * columnB;
    int64_t row[kRows];
    C sum[kRows];
    for (int r = 0; r < kRows; ++r) { // rows past the end repeat the last row
      row[r] = std::min(block * kRows + r, rows - 1) * rowA;
      if constexpr (adds)
        sum[r] =
            C(base[(matrix * rows + std::min(block * kRows + r, rows - 1)) * columns + column]);
      else
        sum[r] = C(0);
    }
    for (int64_t k = 0; k < inner; ++k) {
      C v = C(right[k * stepB]);
      for (int r = 0; r < kRows; ++r)
        sum[r] += C(from[row[r] + k * stepA]) * v;
    }
    C more = bias ? C(bias[column]) : C(0);
    Out *to = y + (matrix * rows + block * kRows) * columns + column;
    for (int r = 0; r < kRows; ++r)
      if (block * kRows + r < rows)
        to[r * columns] = Out(bias ? sum[r] + more : sum[r]);
  }
};

// `first`: the operand that is the first factor. An operand before it is what is added to.
template <size_t first> struct Matmul {
  template <typename T> static void run(const Launch &l) {
    if (l.call.results[0].dtype == l.call.operands[first].dtype)
      into<T, T>(l);
    else
      into<T, Compute<T>>(l);
  }
  template <typename T, typename Out> static void into(const Launch &l) {
    bool ta = l.call.attrs->getBool("transpose_a"), tb = l.call.attrs->getBool("transpose_b");
    const Type &a = l.call.operands[first], &b = l.call.operands[first + 1], &y = l.call.results[0];
    if (y.elements() == 0)
      return;
    auto batchOf = [](const Type &t) { return llvm::makeArrayRef(t.dims).drop_back(2); };
    Walk<2> batch(batchOf(y), {broadcastStrides(batchOf(a), batchOf(y)),
                               broadcastStrides(batchOf(b), batchOf(y))});
    int64_t widthA = a.dims.back(), heightA = a.dims[a.rank() - 2];
    int64_t widthB = b.dims.back(), heightB = b.dims[b.rank() - 2];
    int64_t rows = y.dims[y.rank() - 2], columns = y.dims.back();
    int64_t blocks = (rows + kRows - 1) / kRows;
    const T *bias = l.call.operands.size() > first + 2 ? l.operand<T>(first + 2) : nullptr;
    Product<T, Out, (first > 0)> product{l.operand<T>(first),
                                         l.operand<T>(first + 1),
                                         l.operand<Out>(0),
                                         bias,
                                         l.result<Out>(0),
                                         rows,
                                         columns,
                                         ta ? heightA : widthA,
                                         widthA * heightA,
                                         widthB * heightB,
                                         ta ? 1 : widthA,
                                         ta ? widthA : 1,
                                         tb ? 1 : widthB,
                                         tb ? widthB : 1,
                                         Strided<2>(batch),
                                         Divisor(columns),
                                         Divisor(blocks)};
    forEach(l.queue, batch.elements() * blocks * columns,
            [=] ISTHMUS_GPU(int64_t i) { product(i); });
  }
};

template <size_t first> void runByFactor(const Launch &l) {
  dispatchFloat(l.call.operands[first].dtype,
                [&](auto tag) { Matmul<first>::template run<typename decltype(tag)::type>(l); });
}

template <typename Bits>
void repeat(const Queue &queue, const void *row, int64_t columns, int64_t rows, void *y) {
  auto *from = static_cast<const Bits *>(row);
  auto *to = static_cast<Bits *>(y);
  Divisor byColumns(columns);
  forEach(queue, rows * columns, [=] ISTHMUS_GPU(int64_t i) {
    int64_t column;
    byColumns(i, &column);
    to[i] = from[column];
  });
}

} // namespace

void repeatRow(const Queue &queue, const void *row, int64_t columns, int64_t bytes, int64_t rows,
               void *y) {
  auto *run = bytes == 8 ? repeat<uint64_t> : bytes == 4 ? repeat<uint32_t> : repeat<uint16_t>;
  run(queue, row, columns, rows, y);
}

void copyResult(const Queue &queue, int64_t bytes, const void *from, void *to) {
  copyDense(queue, bytes, from, to);
}

void registerMatmul(KernelTable &table) {
  table.add({"matmul", kOwnLibrary, prepareGrid<runByFactor<0>>});
  table.add({"matmul_add", kOwnLibrary, prepareGrid<runByFactor<1>>});
}

std::unique_ptr<PreparedKernel> prepareOwnProduct(const OpCall &call, const Queue &queue) {
  auto kernel = std::make_unique<GridKernel>(call, queue, runByFactor<0>, 0);
  kernel->library = kOwnLibrary;
  return kernel;
}

} // namespace isthmus::cuda
