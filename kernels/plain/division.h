// The order in which a reduction walks its operand.
#pragma once

#include "kernels/plain/dispatch.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>

namespace isthmus::plain {

// A shape divided into kept and reduced axes. Neighbouring axes of the same kind are merged, and
// the last one is held apart, because the fast loops run over it.
struct Division {
  Division(const Type &x, const Ints &axes) {
    Dims dims, strides, dense = denseStrides(x.dims);
    llvm::SmallVector<bool, 4> reduced;
    for (int64_t i = 0; i < x.rank(); ++i) {
      if (x.dims[i] == 1)
        continue;
      bool r =
          axes.empty() || llvm::is_contained(axes, i) || llvm::is_contained(axes, i - x.rank());
      if (!dims.empty() && reduced.back() == r) {
        dims.back() *= x.dims[i];
        strides.back() = dense[i];
      } else {
        dims.push_back(x.dims[i]);
        strides.push_back(dense[i]);
        reduced.push_back(r);
      }
    }
    if (!dims.empty()) {
      lastReduced = reduced.back();
      last = dims.back();
      dims.pop_back();
      strides.pop_back();
    }
    Dims kept, keptStrides, summed, summedStrides;
    for (size_t i = 0; i < dims.size(); ++i) {
      (reduced[i] ? summed : kept).push_back(dims[i]);
      (reduced[i] ? summedStrides : keptStrides).push_back(strides[i]);
    }
    outerKept.emplace(kept, std::array<Dims, 1>{keptStrides});
    outerReduced.emplace(summed, std::array<Dims, 1>{summedStrides});
  }

  bool lastReduced = true;
  int64_t last = 1;
  std::optional<Walk<1>> outerKept, outerReduced;

  int64_t perOutput() const { return outerReduced->elements() * (lastReduced ? last : 1); }

  // Calls body(index, offset) for elements [begin, end) of a walk.
  template <typename Body>
  static void forEach(const Walk<1> &walk, int64_t begin, int64_t end, Body body) {
    int64_t step = walk.rowStride(0), index = begin;
    walk.forEachRow(begin, end, [&](const std::array<int64_t, 1> &at, int64_t n) {
      for (int64_t i = 0; i < n; ++i)
        body(index++, at[0] + i * step);
    });
  }
  template <typename Body> void forEachReduced(Body body) const {
    forEach(*outerReduced, 0, outerReduced->elements(), [&](int64_t, int64_t at) { body(at); });
  }
};

} // namespace isthmus::plain
