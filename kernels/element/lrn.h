// Local response normalisation of an element, on every device. The gradient recomputes the sums of
// a window for each element that reads them: windows are small, and this needs no scratch memory. S
// is the compute type.
#pragma once

#include "ir/op_def.h"
#include "kernels/element/dtype.h"

namespace isthmus::element {

// x as [batch, channels, inner].
struct Lrn {
  int64_t batch, channels, inner = 1, below, above; // channels of a window below and above its own
  double alpha, beta, bias;                         // alpha is divided by the window's size

  explicit Lrn(const OpCall &call) {
    const Type &x = call.results[0];
    batch = x.dims[0];
    channels = x.dims[1];
    for (size_t a = 2; a < x.dims.size(); ++a)
      inner *= x.dims[a];
    int64_t size = call.attrs->getInt("size");
    below = (size - 1) / 2;
    above = size / 2;
    alpha = call.attrs->getFloat("alpha") / double(size);
    beta = call.attrs->getFloat("beta");
    bias = call.attrs->getFloat("bias");
  }

  // The base of the power that x at channel c is divided by; `x` points to channel 0.
  template <typename S, typename T> ISTHMUS_DEVICE S base(const T *x, int64_t c) const {
    S sum = 0;
    int64_t last = c + above < channels - 1 ? c + above : channels - 1;
    for (int64_t k = c < below ? 0 : c - below; k <= last; ++k)
      sum += S(x[k * inner]) * S(x[k * inner]);
    return S(bias) + S(alpha) * sum;
  }
  template <typename S, typename T> ISTHMUS_DEVICE T forward(const T *x, int64_t c) const {
    return converted<T>(S(x[c * inner]) * std::pow(base<S>(x, c), S(-beta)));
  }
  // `g` points to channel 0, as x does.
  template <typename S, typename T>
  ISTHMUS_DEVICE T backward(const T *g, const T *x, int64_t c) const {
    // Sum over the channels whose windows contain c.
    S others = 0;
    int64_t last = c + below < channels - 1 ? c + below : channels - 1;
    for (int64_t k = c < above ? 0 : c - above; k <= last; ++k)
      others += S(g[k * inner]) * S(x[k * inner]) * std::pow(base<S>(x, k), S(-beta - 1));
    return converted<T>(S(g[c * inner]) * std::pow(base<S>(x, c), S(-beta)) -
                        2 * S(alpha) * S(beta) * S(x[c * inner]) * others);
  }
};

} // namespace isthmus::element
