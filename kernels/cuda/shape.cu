// Ops that move elements. They depend only on an element's size, except where numbers are added.

#include "kernels/cuda/copy.h"
#include "kernels/cuda/register.h"
#include "kernels/cuda/scatter.h"
#include "kernels/element/indexing.h"
#include "kernels/element/pad.h"

namespace isthmus::cuda {
namespace {

// Calls f with the bytes of `value` as an element of type t.
template <typename F> void withElement(DType t, double value, F f) {
  dispatchAny(t, [&](auto tag) {
    auto element = converted<typename decltype(tag)::type>(value);
    f(&element, int64_t(sizeof(element)));
  });
}

void runFull(const Launch &l) {
  const Type &t = l.call.results[0];
  withElement(t.dtype, l.call.attrs->getFloat("value"), [&](const void *element, int64_t bytes) {
    fillDense(l.queue, t.elements(), element, bytes, l.args.results[0]);
  });
}

// --- transpose

// Transposes matrices: y[c][r] = x[r][c], through square tiles that a team reads and writes by
// rows. `row` is the walk's axis that is contiguous in x; the last axis is contiguous in y.
template <typename T>
void transposeTiles(const Queue &queue, const Walk<2> &walk, size_t row, const T *x, T *y) {
  constexpr int kSide = sizeof(T) <= 2 ? 64 : 32, kPitch = kSide + 1; // avoids bank conflicts
  size_t last = walk.rank() - 1;
  Dims dims, from, to;
  for (size_t a = 0; a < last; ++a) {
    dims.push_back(a == row ? 1 : walk.size(a));
    from.push_back(walk.stride(0, a));
    to.push_back(walk.stride(1, a));
  }
  Walk<2> outer(dims, {from, to});
  Strided<2> matrices(outer);
  int64_t rows = walk.size(last), columns = walk.size(row);
  int64_t stepX = walk.stride(0, last), stepY = walk.stride(1, row);
  int64_t down = (rows + kSide - 1) / kSide, across = (columns + kSide - 1) / kSide;
  forEachTeam(queue, outer.elements() * down * across, kOwnBlock,
              [=] ISTHMUS_GPU(int64_t t, const Team &team) {
                T *tile = sharedMemory<T, kSide * kPitch>();
                int64_t c = t % across * kSide, r = t / across % down * kSide, at[2];
                matrices.at(t / across / down, at);
                const T *in = x + at[0] + r * stepX + c;
                T *out = y + at[1] + c * stepY + r;
                team.forEach(kSide * kSide, [&](int64_t i) {
                  int64_t dr = i / kSide, dc = i % kSide;
                  if (r + dr < rows && c + dc < columns)
                    tile[dr * kPitch + dc] = in[dr * stepX + dc];
                });
                team.forEach(kSide * kSide, [&](int64_t i) {
                  int64_t dc = i / kSide, dr = i % kSide;
                  if (r + dr < rows && c + dc < columns)
                    out[dc * stepY + dr] = tile[dr * kPitch + dc];
                });
              });
}

void runTranspose(const Launch &l) {
  const Type &t = l.call.results[0];
  if (t.elements() == 0)
    return;
  Dims strides, dense = denseStrides(l.call.operands[0].dims);
  for (int64_t axis : l.call.attrs->getInts("perm"))
    strides.push_back(dense[axis]);
  const void *x = l.args.operands[0];
  void *y = l.args.results[0];
  Walk<2> walk(t.dims, {strides, denseStrides(t.dims)});
  size_t row = 0;
  while (row + 1 < walk.rank() && walk.stride(0, row) != 1)
    ++row;
  // Tiles that would be mostly empty read no better than independent threads do.
  constexpr int64_t kLeast = 16;
  if (row + 1 == walk.rank() || walk.size(row) < kLeast || walk.rowLength() < kLeast)
    return copyStrided(l.queue, dtypeBytes(t.dtype), t.dims, x, strides, y, denseStrides(t.dims));
  dispatchSize(t.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    transposeTiles(l.queue, walk, row, static_cast<const T *>(x), static_cast<T *>(y));
  });
}

// --- Other copies

void runBroadcast(const Launch &l) {
  const Type &t = l.call.results[0];
  copyStrided(l.queue, dtypeBytes(t.dtype), t.dims, l.args.operands[0],
              broadcastStrides(l.call.operands[0].dims, t.dims), l.args.results[0],
              denseStrides(t.dims));
}

void runSlice(const Launch &l) {
  const Type &t = l.call.results[0];
  const Ints &starts = l.call.attrs->getInts("starts"), &steps = l.call.attrs->getInts("steps");
  if (t.elements() == 0)
    return;
  Dims strides = denseStrides(l.call.operands[0].dims);
  int64_t first = 0, bytes = dtypeBytes(t.dtype);
  for (size_t i = 0; i < strides.size(); ++i) {
    first += starts[i] * strides[i];
    // The step along an axis of one element is unused and may be too large to multiply.
    strides[i] *= steps.empty() || t.dims[i] == 1 ? 1 : steps[i];
  }
  copyStrided(l.queue, bytes, t.dims, l.operand<char>(0) + first * bytes, strides,
              l.args.results[0], denseStrides(t.dims));
}

// Each part covers a part of every row of the whole.
void runConcat(const Launch &l) {
  const Type &whole = l.call.results[0];
  int64_t axis = axisOf(l.call, whole), bytes = dtypeBytes(whole.dtype);
  Dims strides = denseStrides(whole.dims);
  char *to = l.result<char>(0);
  for (size_t i = 0; i < l.call.operands.size(); ++i) {
    const Dims &part = l.call.operands[i].dims;
    copyStrided(l.queue, bytes, part, l.args.operands[i], denseStrides(part), to, strides);
    to += part[axis] * strides[axis] * bytes;
  }
}

void runWritePart(const Launch &l) {
  const Type &part = l.call.operands[0], &whole = l.call.results[0];
  const int64_t axis = axisOf(l.call, whole), bytes = dtypeBytes(whole.dtype);
  char *to = l.result<char>(0);
  const uint8_t zero = 0;
  if (l.call.operands.size() == 1)
    fillDense(l.queue, whole.bytes(), &zero, 1, to);
  else if (to != l.operand<char>(1))
    copyDense(l.queue, whole.bytes(), l.args.operands[1], to);
  const Dims strides = denseStrides(whole.dims);
  copyStrided(l.queue, bytes, part.dims, l.args.operands[0], denseStrides(part.dims),
              to + l.call.attrs->getInt("start") * strides[axis] * bytes, strides);
}

template <typename T> struct RoundOne {
  const char *x;
  char *y;
  ISTHMUS_GPU void operator()(int64_t i) const {
    float from;
    memcpy(&from, x + i * int64_t(sizeof from), sizeof from);
    const T to(from);
    memcpy(y + i * int64_t(sizeof to), &to, sizeof to);
  }
};

// The rounded elements overlie those in the first half. Each one is written after all that it
// overlies are read: first a few by one thread, then as many at a time as there were before.
template <typename T> void shorten(const Launch &l) {
  const int64_t n = l.call.operands[0].elements(), few = std::min<int64_t>(n, 512);
  const RoundOne<T> round{l.operand<char>(0), l.result<char>(0)};
  forEach(l.queue, 1, [=] ISTHMUS_GPU(int64_t) {
    for (int64_t i = 0; i < few; ++i)
      round(i);
  });
  for (int64_t begin = few; begin < n; begin *= 2)
    forEach(l.queue, std::min(n, 2 * begin) - begin,
            [=] ISTHMUS_GPU(int64_t i) { round(begin + i); });
  const uint8_t zero = 0;
  const int64_t half = n * int64_t(sizeof(T));
  fillDense(l.queue, half, &zero, 1, round.y + half);
}
void runShorten(const Launch &l) {
  l.call.results[0].dtype == DType::BF16 ? shorten<BF16>(l) : shorten<F16>(l);
}

void runSplit(const Launch &l) {
  const Type &whole = l.call.operands[0];
  int64_t axis = axisOf(l.call, whole), bytes = dtypeBytes(whole.dtype);
  Dims strides = denseStrides(whole.dims);
  const char *from = l.operand<char>(0);
  for (size_t i = 0; i < l.call.results.size(); ++i) {
    const Dims &part = l.call.results[i].dims;
    copyStrided(l.queue, bytes, part, from, strides, l.args.results[i], denseStrides(part));
    from += part[axis] * strides[axis] * bytes;
  }
}

// --- pad

// The axes of a padded tensor. Neighbouring axes without padding are merged.
struct PaddedAxes {
  static constexpr int kMost = Strided<1>::kMaxAxes;
  int count = 0;
  PadMode mode;
  Divisor to[kMost];
  int64_t low[kMost], from[kMost], stride[kMost];

  PaddedAxes(const Dims &dims, const Dims &padded, const Ints &before, PadMode m) : mode(m) {
    Dims dense = denseStrides(dims), sizes;
    bool joins = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      bool plain = padded[i] == dims[i];
      if (joins && plain) {
        sizes.back() *= dims[i];
      } else {
        ISTHMUS_CHECK(count < kMost, "a shape of too many axes for a kernel");
        sizes.push_back(padded[i]);
        low[count] = before[i];
        from[count++] = dims[i];
      }
      from[count - 1] = plain ? sizes.back() : dims[i];
      stride[count - 1] = dense[i];
      joins = plain;
    }
    for (int a = 0; a < count; ++a)
      to[a] = Divisor(sizes[a]);
  }
  // The index in x that element i of the padded tensor reads; -1 for the constant.
  ISTHMUS_DEVICE int64_t at(int64_t i) const {
    int64_t at = 0;
    for (int a = count - 1; a >= 0; --a) {
      int64_t index;
      i = to[a](i, &index);
      int64_t source = sourceIndex(index - low[a], from[a], mode);
      if (source < 0)
        return -1;
      at += source * stride[a];
    }
    return at;
  }
};

template <typename T>
void pad(const Queue &queue, int64_t n, const PaddedAxes &axes, const T *x, T value, T *y) {
  forEach(queue, n, [=] ISTHMUS_GPU(int64_t i) {
    int64_t at = axes.at(i);
    y[i] = at < 0 ? value : x[at];
  });
}

void runPad(const Launch &l) {
  const Type &t = l.call.results[0];
  PaddedAxes axes(l.call.operands[0].dims, t.dims, l.call.attrs->getInts("low"),
                  padMode(l.call.attrs->getString("mode")));
  withElement(t.dtype, l.call.attrs->getFloat("value"), [&](const void *element, int64_t bytes) {
    dispatchSize(t.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      pad(l.queue, t.elements(), axes, l.operand<T>(0), repeated<T>(element, bytes),
          l.result<T>(0));
    });
  });
}

// --- gather and scatter_rows

template <typename U>
void gatherRows(const Queue &queue, const Rows &r, int64_t count, int64_t inner, Indices indices,
                const U *x, U none, U *y) {
  Divisor byInner(inner), byCount(count);
  int64_t size = r.size;
  forEach(queue, r.outer * count * inner, [=] ISTHMUS_GPU(int64_t i) {
    int64_t j, k, row = byInner(i, &j), o = byCount(row, &k);
    int64_t at = indices.at(k, size);
    y[i] = at < 0 ? none : x[(o * size + at) * inner + j];
  });
}

void runGather(const Launch &l) {
  const Type &x = l.call.operands[0];
  Rows r(x, axisOf(l.call, x));
  int64_t bytes = dtypeBytes(x.dtype), count = l.call.operands[1].elements();
  int64_t unit =
      unitOf(bytes, {r.inner * bytes, addressOf(l.args.operands[0]), addressOf(l.args.results[0])});
  uint64_t none = nothing<uint64_t>(x.dtype);
  dispatchUnit(unit, [&](auto tag) {
    using U = typename decltype(tag)::type;
    gatherRows(l.queue, r, count, r.inner * bytes / unit,
               Indices(l.args.operands[1], l.call.operands[1].dtype), l.operand<U>(0),
               repeated<U>(&none, bytes), l.result<U>(0));
  });
}

Scatter scatterOfRows(const OpCall &call) {
  const Type &y = call.results[0];
  Rows r(y, axisOf(call, y));
  return {r.outer, call.operands[0].elements(), r.size, r.inner, y.dtype, Combining::Add};
}
int64_t scatterRowsBytes(const OpCall &call) { return scatterOfRows(call).bytes(); }

void runScatterRows(const Launch &l) {
  const Type &y = l.call.results[0];
  Scatter s = scatterOfRows(l.call);
  const void *base = l.call.operands.size() > 2 ? l.args.operands[2] : nullptr;
  if (!base) {
    uint64_t zero = 0;
    fillDense(l.queue, y.elements(), &zero, dtypeBytes(y.dtype), l.args.results[0]);
  } else if (base != l.args.results[0]) {
    copyDense(l.queue, y.bytes(), base, l.args.results[0]);
  }
  Indices indices(l.args.operands[0], l.call.operands[0].dtype);
  int64_t *targets = l.workspace<int64_t>();
  int64_t size = s.size;
  forEach(l.queue, s.count, [=] ISTHMUS_GPU(int64_t t) { targets[t] = indices.at(t, size); });
  scatterUpdates(l.queue, s, l.args.operands[1], l.args.results[0], l.args.workspace);
}

// --- trilu

template <typename T>
void trilu(const Queue &queue, const Type &t, int64_t k, bool upper, const T *x, T *y) {
  Divisor byColumns(t.dims.back()), byRows(t.dims[t.rank() - 2]);
  forEach(queue, t.elements(), [=] ISTHMUS_GPU(int64_t i) {
    int64_t column, row;
    byRows(byColumns(i, &column), &row);
    y[i] = (upper ? column >= row + k : column <= row + k) ? x[i] : T();
  });
}

void runTrilu(const Launch &l) {
  const Type &t = l.call.results[0];
  // Clamped so that row + k does not overflow.
  int64_t k = std::clamp(l.call.attrs->getInt("k"), -t.dims[t.rank() - 2] - 1, t.dims.back() + 1);
  bool upper = l.call.attrs->getBool("upper");
  dispatchSize(t.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    trilu(l.queue, t, k, upper, l.operand<T>(0), l.result<T>(0));
  });
}

} // namespace

void registerShape(KernelTable &table) {
  table.add({"full", "cuda", prepareGrid<runFull>});
  table.add({"transpose", "cuda", prepareGrid<runTranspose>});
  table.add({"broadcast", "cuda", prepareGrid<runBroadcast>});
  table.add({"slice", "cuda", prepareGrid<runSlice>});
  table.add({"pad", "cuda", prepareGrid<runPad>});
  table.add({"concat", "cuda", prepareGrid<runConcat>});
  table.add({"write_part", "cuda", prepareGrid<runWritePart>});
  table.add({"shorten", "cuda", prepareGrid<runShorten>});
  table.add({"split", "cuda", prepareGrid<runSplit>});
  table.add({"gather", "cuda", prepareGrid<runGather>});
  table.add({"scatter_rows", "cuda", prepareGrid<runScatterRows, scatterRowsBytes>});
  table.add({"trilu", "cuda", prepareGrid<runTrilu>});
}

} // namespace isthmus::cuda
