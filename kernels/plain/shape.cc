// Ops that move elements. They depend only on an element's size, except where numbers are added.

#include "kernels/element/indexing.h"
#include "kernels/element/pad.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"
#include <cstring>
#include <utility>

namespace isthmus::plain {
namespace {

// --- full

void runFull(const OpCall &call, const KernelArgs &args) {
  double value = call.attrs->getFloat("value");
  dispatchAny(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T *y = result<T>(args, 0), v = converted<T>(value);
    parallelFor(call.results[0].elements(), kGrain,
                [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, v); });
  });
}

// --- Strided copies: transpose, broadcast, slice

// A vector of elements that move together, and the interleaving of two such vectors.
template <typename T> using Quad __attribute__((vector_size(16))) = T;
template <typename T> constexpr int64_t kQuad = 16 / sizeof(T);

template <typename V, int... I>
V interleaved(V a, V b, int from, std::integer_sequence<int, I...>) {
  constexpr int n = sizeof...(I);
  return from == 0 ? __builtin_shufflevector(a, b, (I / 2 + I % 2 * n)...)
                   : __builtin_shufflevector(a, b, (I / 2 + n / 2 + I % 2 * n)...);
}

// Transposes kQuad x kQuad elements, by interleaving the first half of the rows with the second
// half log2(kQuad) times.
template <typename T> void transposeQuads(const T *from, int64_t stepFrom, T *to, int64_t stepTo) {
  constexpr int64_t n = kQuad<T>;
  Quad<T> rows[n], mixed[n];
  for (int64_t r = 0; r < n; ++r)
    std::memcpy(&rows[r], from + r * stepFrom, 16);
  for (int64_t round = 1; round < n; round *= 2) {
    for (int64_t r = 0; r < n / 2; ++r) {
      mixed[2 * r] = interleaved(rows[r], rows[r + n / 2], 0, std::make_integer_sequence<int, n>());
      mixed[2 * r + 1] =
          interleaved(rows[r], rows[r + n / 2], 1, std::make_integer_sequence<int, n>());
    }
    for (int64_t r = 0; r < n; ++r)
      rows[r] = mixed[r];
  }
  for (int64_t r = 0; r < n; ++r)
    std::memcpy(to + r * stepTo, &rows[r], 16);
}

// y[j][i] = x[i][j], by square tiles as wide as a cache line. Rows are often powers of two apart
// and then map to the same few cache sets. So each line of x and y is touched once, as a whole, and
// the tile is transposed in a buffer.
template <typename T>
void transposeTile(const T *x, int64_t stepX, T *y, int64_t stepY, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 64 / sizeof(T);
  alignas(64) T in[kTile * kTile], out[kTile * kTile];
  for (int64_t i = 0; i < rows; i += kTile)
    for (int64_t j = 0; j < columns; j += kTile) {
      const T *from = x + i * stepX + j;
      T *to = y + j * stepY + i;
      if (i + kTile > rows || j + kTile > columns) {
        for (int64_t r = 0; r < std::min(kTile, rows - i); ++r)
          for (int64_t c = 0; c < std::min(kTile, columns - j); ++c)
            to[c * stepY + r] = from[r * stepX + c];
        continue;
      }
      // Prefetches the tile below, which is read soon. A prefetch past the end is harmless.
      for (int64_t r = 0; r < kTile; ++r) {
        __builtin_prefetch(from + (r + kTile) * stepX);
        std::memcpy(in + r * kTile, from + r * stepX, 64);
      }
      for (int64_t r = 0; r < kTile; r += kQuad<T>)
        for (int64_t c = 0; c < kTile; c += kQuad<T>)
          transposeQuads(in + r * kTile + c, kTile, out + c * kTile + r, kTile);
      for (int64_t c = 0; c < kTile; ++c) {
        std::memcpy(to + c * stepY, out + c * kTile, 64);
        __builtin_prefetch(to + c * stepY + kTile, 1);
      }
    }
}

// Fills the dense `y` of shape `dims` from `x` with the given strides.
template <typename T>
void copyStrided(llvm::ArrayRef<int64_t> dims, const Dims &strides, const T *x, T *y) {
  Walk<2> walk(dims, {strides, denseStrides(dims)});
  int64_t step = walk.rowStride(0);
  parallelFor(walk.elements(), kGrain, [&, step](int64_t begin, int64_t end) {
    walk.forEachRow(begin, end, [&](const std::array<int64_t, 2> &at, int64_t n) {
      const T *from = x + at[0];
      T *to = y + at[1];
      if (step == 1)
        std::memcpy(to, from, n * sizeof(T));
      else if (step == 0)
        std::fill(to, to + n, *from);
      else
        for (int64_t i = 0; i < n; ++i)
          to[i] = from[i * step];
    });
  });
}

// A transpose that moves the last axis: transposes, by tiles, every matrix spanned by the operand's
// last axis and the axis that becomes last.
template <typename T>
void transposeMatrices(const Dims &dims, const Dims &strides, const T *x, T *y) {
  Dims stepsY = denseStrides(dims);
  size_t last = dims.size() - 1, row = 0; // of the result: `row` is the operand's last axis
  while (strides[row] != 1)
    ++row;
  int64_t rows = dims[last], columns = dims[row];
  Dims outer = dims;
  outer[last] = outer[row] = 1;
  // A task is a strip of a matrix: 64 of the operand's columns, a few cache lines of both sides.
  constexpr int64_t kStrip = 64;
  int64_t strips = (columns + kStrip - 1) / kStrip;
  parallelFor(product(outer) * strips,
              std::max<int64_t>(1, kGrain / (rows * std::min(columns, kStrip) + 1)),
              [&](int64_t begin, int64_t end) {
                for (int64_t task = begin; task < end; ++task) {
                  int64_t fromAt = 0, toAt = 0, rest = task / strips, at = task % strips * kStrip;
                  for (size_t i = outer.size(); i-- > 0; rest /= outer[i]) {
                    fromAt += rest % outer[i] * strides[i];
                    toAt += rest % outer[i] * stepsY[i];
                  }
                  int64_t width = std::min(kStrip, columns - at);
                  transposeTile(x + fromAt + at, strides[last], y + toAt + at * stepsY[row],
                                stepsY[row], rows, width);
                }
              });
}

void runTranspose(const OpCall &call, const KernelArgs &args) {
  const Ints &perm = call.attrs->getInts("perm");
  Dims dense = denseStrides(call.operands[0].dims);
  // Contiguous axes are merged, and axes of size one are dropped.
  Dims dims, strides;
  for (size_t i = 0; i < perm.size(); ++i) {
    int64_t size = call.operands[0].dims[perm[i]], stride = dense[perm[i]];
    if (size == 1)
      continue;
    if (!dims.empty() && strides.back() == stride * size) {
      dims.back() *= size;
      strides.back() = stride;
    } else {
      dims.push_back(size);
      strides.push_back(stride);
    }
  }
  if (call.results[0].elements() == 0)
    return;
  dispatchSize(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    if (dims.empty() || strides.back() == 1)
      copyStrided(dims, strides, x, y);
    else
      transposeMatrices(dims, strides, x, y);
  });
}

void runBroadcast(const OpCall &call, const KernelArgs &args) {
  const Dims &dims = call.results[0].dims;
  dispatchSize(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    copyStrided(dims, broadcastStrides(call.operands[0].dims, dims), operand<T>(args, 0),
                result<T>(args, 0));
  });
}

void runSlice(const OpCall &call, const KernelArgs &args) {
  const Ints &starts = call.attrs->getInts("starts"), &steps = call.attrs->getInts("steps");
  if (call.results[0].elements() == 0)
    return;
  Dims strides = denseStrides(call.operands[0].dims);
  int64_t first = 0;
  for (size_t i = 0; i < strides.size(); ++i) {
    first += starts[i] * strides[i];
    // The step along an axis of one element is unused and may be too large to multiply.
    strides[i] *= steps.empty() || call.results[0].dims[i] == 1 ? 1 : steps[i];
  }
  dispatchSize(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    copyStrided(call.results[0].dims, strides, operand<T>(args, 0) + first, result<T>(args, 0));
  });
}

// --- pad

template <typename T> void padRows(const OpCall &call, const T *x, T *y, T value) {
  const Ints &low = call.attrs->getInts("low");
  PadMode mode = padMode(call.attrs->getString("mode"));
  const Dims &from = call.operands[0].dims, &to = call.results[0].dims;
  if (to.empty()) {
    *y = *x;
    return;
  }
  size_t last = to.size() - 1;
  Dims stride = denseStrides(from);
  int64_t length = to[last], before = low[last];
  if (length == 0)
    return;
  parallelFor(call.results[0].elements() / length, kGrain / length + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  int64_t at = 0, rest = row;
                  bool inside = true;
                  for (size_t i = last; i-- > 0; rest /= to[i]) {
                    int64_t index = sourceIndex(rest % to[i] - low[i], from[i], mode);
                    inside &= index >= 0;
                    at += index * stride[i];
                  }
                  T *out = y + row * length;
                  if (!inside) {
                    std::fill(out, out + length, value);
                    continue;
                  }
                  auto border = [&](int64_t i) {
                    int64_t index = sourceIndex(i - before, from[last], mode);
                    return index < 0 ? value : x[at + index];
                  };
                  for (int64_t i = 0; i < before; ++i)
                    out[i] = border(i);
                  std::copy_n(x + at, from[last], out + before);
                  for (int64_t i = before + from[last]; i < length; ++i)
                    out[i] = border(i);
                }
              });
}

void runPad(const OpCall &call, const KernelArgs &args) {
  dispatchAny(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    padRows(call, operand<T>(args, 0), result<T>(args, 0),
            converted<T>(call.attrs->getFloat("value")));
  });
}

// --- concat and split: each part consists of `outer` rows of `bytes` bytes, each a part of a row
// of the whole.

void copyRows(const char *from, int64_t stepFrom, char *to, int64_t stepTo, int64_t rows,
              int64_t bytes) {
  if (bytes == 0)
    return;
  if (bytes == stepFrom && bytes == stepTo) {
    bytes *= rows;
    rows = 1;
  }
  if (rows == 1) {
    parallelFor(bytes, 4 * kGrain, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, end - begin);
    });
    return;
  }
  parallelFor(rows, 4 * kGrain / bytes + 1, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      std::memcpy(to + r * stepTo, from + r * stepFrom, bytes);
  });
}

void runConcat(const OpCall &call, const KernelArgs &args) {
  const Type &whole = call.results[0];
  int64_t axis = axisOf(call, whole),
          outer = product(llvm::makeArrayRef(whole.dims).take_front(axis));
  if (whole.elements() == 0)
    return;
  int64_t step = whole.bytes() / outer;
  char *to = result<char>(args, 0);
  for (size_t i = 0; i < call.operands.size(); ++i) {
    int64_t bytes = call.operands[i].bytes() / outer;
    copyRows(operand<char>(args, i), bytes, to, step, outer, bytes);
    to += bytes;
  }
}

void runWritePart(const OpCall &call, const KernelArgs &args) {
  const Type &part = call.operands[0], &whole = call.results[0];
  const int64_t axis = axisOf(call, whole),
                outer = product(llvm::makeArrayRef(whole.dims).take_front(axis));
  char *to = result<char>(args, 0);
  if (call.operands.size() == 1)
    std::memset(to, 0, size_t(whole.bytes()));
  else if (to != operand<char>(args, 1))
    copyRows(operand<char>(args, 1), whole.bytes(), to, whole.bytes(), 1, whole.bytes());
  if (part.elements() == 0)
    return;
  const int64_t step = whole.bytes() / outer, bytes = part.bytes() / outer;
  copyRows(operand<char>(args, 0), bytes,
           to + step / whole.dims[axis] * call.attrs->getInt("start"), step, outer, bytes);
}

// The rounded elements overlie those in the first half. Each one is written after all that it
// overlies are read: first a few through a buffer, then as many at a time as there were before.
template <typename T> void shorten(const char *x, int64_t n, char *y) {
  constexpr int64_t kFew = 1024;
  auto roundAll = [=](int64_t begin, int64_t end) {
    float from[kFew];
    T to[kFew];
    for (int64_t i = begin; i < end; i += kFew) {
      const int64_t count = std::min(kFew, end - i);
      std::memcpy(from, x + i * int64_t(sizeof(float)), size_t(count) * sizeof(float));
      vectorised([count, wide = &from[0], narrow = &to[0]] {
        for (int64_t k = 0; k < count; ++k)
          narrow[k] = T(wide[k]);
      });
      std::memcpy(y + i * int64_t(sizeof(T)), to, size_t(count) * sizeof(T));
    }
  };
  roundAll(0, std::min(n, kFew));
  for (int64_t begin = kFew; begin < n; begin *= 2)
    parallelFor(std::min(n, 2 * begin) - begin, kGrain,
                [=](int64_t from, int64_t to) { roundAll(begin + from, begin + to); });
  std::memset(y + n * int64_t(sizeof(T)), 0, size_t(n) * sizeof(T));
}
void runShorten(const OpCall &call, const KernelArgs &args) {
  auto *run = call.results[0].dtype == DType::BF16 ? shorten<BF16> : shorten<F16>;
  run(operand<char>(args, 0), call.operands[0].elements(), result<char>(args, 0));
}

void runSplit(const OpCall &call, const KernelArgs &args) {
  const Type &whole = call.operands[0];
  int64_t axis = axisOf(call, whole),
          outer = product(llvm::makeArrayRef(whole.dims).take_front(axis));
  if (whole.elements() == 0)
    return;
  int64_t step = whole.bytes() / outer;
  const char *from = operand<char>(args, 0);
  for (size_t i = 0; i < call.results.size(); ++i) {
    int64_t bytes = call.results[i].bytes() / outer;
    copyRows(from, step, result<char>(args, i), bytes, outer, bytes);
    from += bytes;
  }
}

// --- gather and scatter_rows

template <typename T, typename I> void gatherRows(const OpCall &call, const KernelArgs &args) {
  const Type &x = call.operands[0];
  const Rows r(x, axisOf(call, x));
  int64_t size = r.size, inner = r.inner;
  int64_t count = call.operands[1].elements();
  const T *from = operand<T>(args, 0);
  const I *indices = operand<I>(args, 1);
  T *to = result<T>(args, 0);
  T nothing = T();
  if constexpr (kIsFloat<T>)
    nothing = T(std::numeric_limits<Compute<T>>::quiet_NaN());
  parallelFor(r.outer * count, kGrain / (inner + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t i = resolved(indices[row % count], size);
      if (i < 0)
        std::fill_n(to + row * inner, inner, nothing);
      else if (inner == 1)
        to[row] = from[row / count * size + i];
      else
        std::memcpy(to + row * inner, from + (row / count * size + i) * inner, inner * sizeof(T));
    }
  });
}

void runGather(const OpCall &call, const KernelArgs &args) {
  dispatchAny(call.results[0].dtype, [&](auto tag) {
    dispatchInteger(call.operands[1].dtype, [&](auto indexTag) {
      gatherRows<typename decltype(tag)::type, typename decltype(indexTag)::type>(call, args);
    });
  });
}

// Each thread owns a range of the target slices and reads all indices. So rows are added to a slice
// in the order of the indices, for any number of threads.
template <typename T, typename I> void scatterRows(const OpCall &call, const KernelArgs &args) {
  const Type &y = call.results[0];
  const Rows r(y, axisOf(call, y));
  int64_t outer = r.outer, size = r.size, inner = r.inner;
  int64_t count = call.operands[0].elements();
  const I *indices = operand<I>(args, 0);
  const T *rows = operand<T>(args, 1);
  const T *base = call.operands.size() > 2 ? operand<T>(args, 2) : nullptr;
  T *to = result<T>(args, 0);
  parallelFor(size, kGrain / (outer * inner + 1) + 1, [=](int64_t begin, int64_t end) {
    for (int64_t o = 0; o < outer; ++o) {
      int64_t first = (o * size + begin) * inner, elements = (end - begin) * inner;
      if (!base)
        std::fill_n(to + first, elements, T());
      else if (base != to)
        std::copy_n(base + first, elements, to + first);
      for (int64_t r = 0; r < count; ++r) {
        int64_t i = resolved(indices[r], size);
        if (i < begin || i >= end)
          continue;
        const T *row = rows + (o * count + r) * inner;
        T *sum = to + (o * size + i) * inner;
        for (int64_t j = 0; j < inner; ++j)
          if constexpr (std::is_integral_v<T>)
            sum[j] =
                static_cast<T>(std::make_unsigned_t<T>(sum[j]) + std::make_unsigned_t<T>(row[j]));
          else
            sum[j] = T(Compute<T>(sum[j]) + Compute<T>(row[j]));
      }
    }
  });
}

void runScatterRows(const OpCall &call, const KernelArgs &args) {
  dispatchNumber(call.results[0].dtype, [&](auto tag) {
    dispatchInteger(call.operands[0].dtype, [&](auto indexTag) {
      scatterRows<typename decltype(tag)::type, typename decltype(indexTag)::type>(call, args);
    });
  });
}

// --- trilu

void runTrilu(const OpCall &call, const KernelArgs &args) {
  const Type &t = call.results[0];
  int64_t rows = t.dims[t.rank() - 2], columns = t.dims.back();
  // The first (upper) or last (lower) kept column of row r is r + k. k is clamped so that the sum
  // does not overflow.
  int64_t k = std::clamp(call.attrs->getInt("k"), -rows - 1, columns + 1);
  bool upper = call.attrs->getBool("upper");
  if (t.elements() == 0)
    return;
  dispatchSize(t.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    parallelFor(t.elements() / columns, kGrain / columns + 1, [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const T *from = x + row * columns;
        T *to = y + row * columns;
        int64_t edge = std::clamp<int64_t>(row % rows + k + (upper ? 0 : 1), 0, columns);
        int64_t keepFrom = upper ? edge : 0, keepTo = upper ? columns : edge;
        std::fill(to, to + keepFrom, T());
        if (from != to)
          std::copy(from + keepFrom, from + keepTo, to + keepFrom);
        std::fill(to + keepTo, to + columns, T());
      }
    });
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainShape(KernelTable &table) {
  using namespace plain;
  table.add({"full", "plain", prepareThreaded<runFull>});
  table.add({"transpose", "plain", prepareThreaded<runTranspose>});
  table.add({"broadcast", "plain", prepareThreaded<runBroadcast>});
  table.add({"slice", "plain", prepareThreaded<runSlice>});
  table.add({"pad", "plain", prepareThreaded<runPad>});
  table.add({"concat", "plain", prepareThreaded<runConcat>});
  table.add({"write_part", "plain", prepareThreaded<runWritePart>});
  table.add({"shorten", "plain", prepareThreaded<runShorten>});
  table.add({"split", "plain", prepareThreaded<runSplit>});
  table.add({"gather", "plain", prepareThreaded<runGather>});
  table.add({"scatter_rows", "plain", prepareThreaded<runScatterRows>});
  table.add({"trilu", "plain", prepareThreaded<runTrilu>});
}

} // namespace isthmus
