// Helpers shared by the normalisation kernels.
#pragma once

#include "ir/rank.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/sums.h"

namespace isthmus {

void addRmsNormKernels(KernelTable &table);   // rms_norm.cc
void addGroupNormKernels(KernelTable &table); // group_norm.cc
void addLrnKernels(KernelTable &table);       // lrn.cc

} // namespace isthmus

namespace isthmus::plain {

// x as [outer, inner]: `outer` rows to normalise.
struct LayerShape {
  int64_t outer = 1, inner = 1;

  LayerShape(const Type &x, int64_t axis) {
    axis = axisFromFront(axis, x.rank());
    for (int64_t a = 0; a < x.rank(); ++a)
      (a < axis ? outer : inner) *= x.dims[a];
  }
  template <typename F> void forEachRow(F f) const {
    parallelFor(outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(1, inner)),
                [&](int64_t begin, int64_t end) {
                  vectorised([&] {
                    for (int64_t r = begin; r < end; ++r)
                      f(r);
                  });
                });
  }
};

template <typename Term> double rowSum(int64_t n, Term term) {
  LaneSum sum;
  sum.addRow(n, term);
  return sum.total();
}

// Computes dscale and dbias, column sums, in pieces that fit on the stack. RMS norm has no means
// and no dbias: both pointers are null.
template <typename T, typename P>
void layerColumns(const LayerShape &s, const T *g, const T *x, const Compute<T> *means,
                  const Compute<T> *rstds, P *dScale, P *dBias) {
  constexpr int64_t kPiece = 64;
  auto piece = [&](int64_t p) {
    double sumG[kPiece] = {}, sumGX[kPiece] = {};
    int64_t from = p * kPiece, n = std::min(kPiece, s.inner - from);
    for (int64_t r = 0; r < s.outer; ++r) {
      const T *up = g + r * s.inner + from, *at = x + r * s.inner + from;
      double mean = means ? double(means[r]) : 0, rstd = double(rstds[r]);
      for (int64_t i = 0; i < n; ++i) {
        sumG[i] += double(up[i]);
        sumGX[i] += double(up[i]) * ((double(at[i]) - mean) * rstd);
      }
    }
    for (int64_t i = 0; i < n; ++i)
      dScale[from + i] = converted<P>(sumGX[i]);
    for (int64_t i = 0; i < n && dBias; ++i)
      dBias[from + i] = converted<P>(sumG[i]);
  };
  int64_t pieces = (s.inner + kPiece - 1) / kPiece;
  parallelFor(pieces, std::max<int64_t>(1, kGrain / (kPiece * std::max<int64_t>(1, s.outer))),
              [&](int64_t begin, int64_t end) {
                vectorised([&] {
                  for (int64_t p = begin; p < end; ++p)
                    piece(p);
                });
              });
}

// Dispatches on the types of x (operand `X`) and of the vector that follows it.
template <typename K, size_t X> void runNorm(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.operands[X].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (call.operands[X + 1].dtype == call.operands[X].dtype)
      K::template run<T, T>(call, args);
    else
      K::template run<T, Compute<T>>(call, args);
  });
}

} // namespace isthmus::plain
