// Helpers shared by the normalisations: moments of an output's elements, and dispatch on types.
#pragma once

#include "kernels/cuda/reduce.h"

namespace isthmus::cuda {

// Mean and sum of squared deviations, in two passes, so that a large mean does not cancel the
// variance. Pieces are folded by the formula of Chan, Golub and LeVeque (1979).
template <typename S> struct Moments {
  S count = 0, mean = 0, squares = 0;

  ISTHMUS_GPU S variance() const { return count > 0 ? squares / count : S(0); }
};
// If not `centred`, the squares are those of x itself and the mean is zero.
template <typename S, typename T, typename E>
ISTHMUS_GPU Moments<S> momentsOf(const E &elements, const T *x, bool centred) {
  Moments<S> m;
  m.count = S(elements.count());
  auto read = [&](int64_t at, int64_t) { return S(x[at]); };
  if (centred && elements.count() > 0)
    m.mean = elements.reduce(S(0), read, Add(), Add()) / m.count;
  S mean = m.mean;
  m.squares = elements.reduce(
      S(0), read, [&](S s, S v) { return s + (v - mean) * (v - mean); }, Add());
  return m;
}
template <typename S> ISTHMUS_GPU Moments<S> folded(Moments<S> a, Moments<S> b) {
  if (a.count == 0 || b.count == 0)
    return a.count == 0 ? b : a;
  S count = a.count + b.count, apart = b.mean - a.mean, share = b.count / count;
  Moments<S> m;
  m.count = count;
  m.mean = a.mean + apart * share;
  m.squares = a.squares + b.squares + apart * apart * a.count * share;
  return m;
}

// The sum of the incoming gradient g, and of g times x.
template <typename S> struct GradSums { S g = 0, gx = 0; };
template <typename S> ISTHMUS_GPU GradSums<S> folded(GradSums<S> a, GradSums<S> b) {
  GradSums<S> s;
  s.g = a.g + b.g;
  s.gx = a.gx + b.gx;
  return s;
}

// read(at, index) returns both terms for an element.
template <typename S, typename E, typename Read>
ISTHMUS_GPU GradSums<S> gradSumsOf(const E &elements, Read read) {
  auto add = [](GradSums<S> a, GradSums<S> b) { return folded(a, b); };
  return elements.reduce(GradSums<S>(), read, add, add);
}

// Runs K::run<T, P>, where T is the type of x (operand `X`) and P that of the vector that follows
// it.
template <typename K, size_t X> void runNorm(const Launch &l) {
  dispatchFloat(l.call.operands[X].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (l.call.operands[X + 1].dtype == l.call.operands[X].dtype)
      K::template run<T, T>(l);
    else
      K::template run<T, Compute<T>>(l);
  });
}

} // namespace isthmus::cuda
