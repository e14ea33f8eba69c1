// Elementwise kernels: a function object applied to every element, or pair of elements. Dense
// operands are read and written sixteen bytes at a time.
//
// Results may lie over operands of the same size, element on element: a thread reads its elements
// before it writes them, and no other thread does either.
#pragma once

#include "kernels/cuda/grid_kernel.h"
#include "kernels/cuda/strided.h"

namespace isthmus::cuda {

// As many elements as make sixteen bytes of the widest type at hand.
template <typename T, int N> struct alignas(sizeof(T) * N) Pack { T element[N]; };
template <typename A, typename B>
constexpr int kPackOf = 16 / int(sizeof(A) > sizeof(B) ? sizeof(A) : sizeof(B));

template <typename T, typename Out, typename F> ISTHMUS_DEVICE Out applied(F f, T x) {
  return static_cast<Out>(f(static_cast<Compute<T>>(x)));
}
template <typename T, typename Out, typename F> ISTHMUS_DEVICE Out applied(F f, T a, T b) {
  return static_cast<Out>(f(static_cast<Compute<T>>(a), static_cast<Compute<T>>(b)));
}

// y = f(x) for n elements.
template <typename T, typename Out, typename F>
void mapDense(const Queue &queue, int64_t n, const T *x, Out *y, F f) {
  constexpr int N = kPackOf<T, Out>;
  int64_t packs = n / N;
  forEach(queue, packs + (n % N ? 1 : 0), [=] ISTHMUS_GPU(int64_t p) {
    if (p < packs) {
      Pack<T, N> in = reinterpret_cast<const Pack<T, N> *>(x)[p];
      Pack<Out, N> out;
      for (int i = 0; i < N; ++i)
        out.element[i] = applied<T, Out>(f, in.element[i]);
      reinterpret_cast<Pack<Out, N> *>(y)[p] = out;
    } else {
      for (int64_t i = packs * N; i < n; ++i)
        y[i] = applied<T, Out>(f, x[i]);
    }
  });
}

// Pack p of n elements: the last may be short, and is then filled up with zeros.
template <int N, typename T> ISTHMUS_DEVICE Pack<T, N> loadPack(const T *x, int64_t p, int64_t n) {
  if ((p + 1) * N <= n)
    return reinterpret_cast<const Pack<T, N> *>(x)[p];
  Pack<T, N> pack{};
  for (int i = 0; p * N + i < n; ++i)
    pack.element[i] = x[p * N + i];
  return pack;
}
template <int N, typename T>
ISTHMUS_DEVICE void storePack(T *y, int64_t p, int64_t n, const Pack<T, N> &pack) {
  if ((p + 1) * N <= n)
    reinterpret_cast<Pack<T, N> *>(y)[p] = pack;
  else
    for (int i = 0; p * N + i < n; ++i)
      y[p * N + i] = pack.element[i];
}

// Pack p of x; of one element over and over where x does not step.
template <int N, typename T> ISTHMUS_DEVICE Pack<T, N> packAt(const T *x, bool steps, int64_t p) {
  Pack<T, N> pack;
  if (steps)
    pack = reinterpret_cast<const Pack<T, N> *>(x)[p];
  else
    for (int i = 0; i < N; ++i)
      pack.element[i] = *x;
  return pack;
}

// y = f(a, b) for n elements; an operand that does not step is one element.
template <typename T, typename Out, typename F>
void mapDense(const Queue &queue, int64_t n, const T *a, bool stepA, const T *b, bool stepB, Out *y,
              F f) {
  constexpr int N = kPackOf<T, Out>;
  int64_t packs = n / N;
  forEach(queue, packs + (n % N ? 1 : 0), [=] ISTHMUS_GPU(int64_t p) {
    if (p < packs) {
      Pack<T, N> first = packAt<N>(a, stepA, p), second = packAt<N>(b, stepB, p);
      Pack<Out, N> out;
      for (int i = 0; i < N; ++i)
        out.element[i] = applied<T, Out>(f, first.element[i], second.element[i]);
      reinterpret_cast<Pack<Out, N> *>(y)[p] = out;
    } else {
      for (int64_t i = packs * N; i < n; ++i)
        y[i] = applied<T, Out>(f, a[stepA ? i : 0], b[stepB ? i : 0]);
    }
  });
}

// y = f(a, b) with numpy's broadcasting.
template <typename T, typename Out, typename F> void mapTwo(const Launch &l, F f) {
  const T *a = l.operand<T>(0), *b = l.operand<T>(1);
  Out *y = l.result<Out>(0);
  const Dims &dims = l.call.results[0].dims;
  Walk<2> walk(dims, {broadcastStrides(l.call.operands[0].dims, dims),
                      broadcastStrides(l.call.operands[1].dims, dims)});
  int64_t n = walk.elements();
  bool stepA = walk.rowStride(0) != 0, stepB = walk.rowStride(1) != 0;
  if (walk.rank() == 1)
    return mapDense(l.queue, n, a, stepA, b, stepB, y, f);
  Strided<2> strided(walk);
  forEach(l.queue, n, [=] ISTHMUS_GPU(int64_t i) {
    int64_t at[2];
    strided.at(i, at);
    y[i] = applied<T, Out>(f, a[at[0]], b[at[1]]);
  });
}

template <typename T, typename F> void mapOne(const Launch &l, F f) {
  mapDense(l.queue, l.call.results[0].elements(), l.operand<T>(0), l.result<T>(0), f);
}

} // namespace isthmus::cuda
