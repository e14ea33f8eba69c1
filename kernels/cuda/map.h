// Elementwise kernels: a function object applied to every element, or pair of elements. Dense
// operands are read and written in packs of sixteen bytes.
//
// A result may alias an operand of the same size: a thread reads its elements before it writes
// them, and no other thread touches them.
#pragma once

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/strided.h"

namespace isthmus::cuda {

// A pack holds as many elements as fill sixteen bytes with the wider of the two types.
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T element[N]; };
template <typename A, typename B>
constexpr int kPackOf = 16 / int(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

template <typename T, typename Out, typename F> ISTHMUS_DEVICE Out applied(F f, T x) {
  return static_cast<Out>(f(static_cast<Compute<T>>(x)));
}
template <typename T, typename Out, typename F> ISTHMUS_DEVICE Out applied(F f, T a, T b) {
  return static_cast<Out>(f(static_cast<Compute<T>>(a), static_cast<Compute<T>>(b)));
}

// Pack p of n elements. The last pack may be short and is then padded with zeros.
template <int N, typename T> ISTHMUS_DEVICE Pack<T, N> loadPack(const T *x, int64_t p, int64_t n) {
  if ((p + 1) * N <= n)
    return reinterpret_cast<const Pack<T, N> *>(x)[p];
  Pack<T, N> pack{};
  for (int i = 0; i < N; ++i)
    if (p * N + i < n)
      pack.element[i] = x[p * N + i];
  return pack;
}
template <int N, typename T>
ISTHMUS_DEVICE void storePack(T *y, int64_t p, int64_t n, const Pack<T, N> &pack) {
  if ((p + 1) * N <= n) {
    reinterpret_cast<Pack<T, N> *>(y)[p] = pack;
    return;
  }
  for (int i = 0; i < N; ++i)
    if (p * N + i < n)
      y[p * N + i] = pack.element[i];
}

// Pack p of x, or one element repeated if x does not step.
template <int N, typename T>
ISTHMUS_DEVICE Pack<T, N> packAt(const T *x, bool steps, int64_t p, int64_t n) {
  if (steps)
    return loadPack<N>(x, p, n);
  Pack<T, N> pack;
  for (int i = 0; i < N; ++i)
    pack.element[i] = *x;
  return pack;
}

// y = f(x) for n elements. A short pack is computed whole, so that the code contains f only once.
template <typename T, typename Out, typename F>
void mapDense(const Queue &queue, int64_t n, const T *x, Out *y, F f) {
  constexpr int N = kPackOf<T, Out>;
  forEach(queue, (n + N - 1) / N, [=] ISTHMUS_GPU(int64_t p) {
    Pack<T, N> in = loadPack<N>(x, p, n);
    Pack<Out, N> out;
    for (int i = 0; i < N; ++i)
      out.element[i] = applied<T, Out>(f, in.element[i]);
    storePack(y, p, n, out);
  });
}

// y = f(a, b) for n elements; an operand that does not step has a single element.
template <typename T, typename Out, typename F>
void mapDense(const Queue &queue, int64_t n, const T *a, bool stepA, const T *b, bool stepB, Out *y,
              F f) {
  constexpr int N = kPackOf<T, Out>;
  forEach(queue, (n + N - 1) / N, [=] ISTHMUS_GPU(int64_t p) {
    Pack<T, N> first = packAt<N>(a, stepA, p, n), second = packAt<N>(b, stepB, p, n);
    Pack<Out, N> out;
    for (int i = 0; i < N; ++i)
      out.element[i] = applied<T, Out>(f, first.element[i], second.element[i]);
    storePack(y, p, n, out);
  });
}

// The element types that networks usually compute in. For other types, dense operands too are
// processed one element at a time.
template <typename T> constexpr bool kIsCommon = kIsFloat<T> && !std::is_same_v<T, double>;

// y = f(a, b) with numpy's broadcasting, where a and b are the operands `first` and `second`.
template <typename T, typename Out, typename F>
void mapTwo(const Launch &l, F f, size_t first = 0, size_t second = 1) {
  const T *a = l.operand<T>(first), *b = l.operand<T>(second);
  Out *y = l.result<Out>(0);
  const Dims &dims = l.call.results[0].dims;
  Walk<2> walk(dims, {broadcastStrides(l.call.operands[first].dims, dims),
                      broadcastStrides(l.call.operands[second].dims, dims)});
  int64_t n = walk.elements();
  if constexpr (kIsCommon<T>)
    if (walk.rank() == 1)
      return mapDense(l.queue, n, a, walk.rowStride(0) != 0, b, walk.rowStride(1) != 0, y, f);
  Strided<2> strided(walk);
  forEach(l.queue, n, [=] ISTHMUS_GPU(int64_t i) {
    int64_t at[2];
    strided.at(i, at);
    y[i] = applied<T, Out>(f, a[at[0]], b[at[1]]);
  });
}

// The same for two operands of equal shape.
template <typename T, typename F> void mapPair(const Launch &l, F f) {
  mapDense(l.queue, l.call.results[0].elements(), l.operand<T>(0), true, l.operand<T>(1), true,
           l.result<T>(0), f);
}

template <typename T, typename F> void mapOne(const Launch &l, F f) {
  mapDense(l.queue, l.call.results[0].elements(), l.operand<T>(0), l.result<T>(0), f);
}

} // namespace isthmus::cuda
