// The window that convolutions and pools slide over the spatial axes: all axes but the first two.
#pragma once

#include "ir/op_def.h"

namespace isthmus {

struct WindowAxis {
  int64_t kernel = 1, stride = 1, dilation = 1;
  int64_t padLow = 0, padHigh = 0;

  int64_t extent() const { return (kernel - 1) * dilation + 1; }
  // The number of window positions along `size` elements; 0 if the window does not fit. With `ceil`
  // the last window may extend past the end, but must start within the elements or the low padding.
  int64_t places(int64_t size, bool ceil = false) const;
};

using Window = llvm::SmallVector<WindowAxis, 3>;

// The window of a node whose attributes were checked. `kernel` has one size per spatial axis.
// Missing attributes and empty lists mean ones (zeros for pads).
Window windowOf(const Attrs &attrs, llvm::ArrayRef<int64_t> kernel);

// The same with all checks: list lengths, and that sizes are positive and small enough for exact
// arithmetic.
llvm::Expected<Window> checkedWindow(const InferContext &c, llvm::ArrayRef<int64_t> kernel);

// The spatial sizes of a type of rank 3 or more.
inline llvm::ArrayRef<int64_t> spatial(const Type &t) {
  return llvm::makeArrayRef(t.dims).drop_front(2);
}

// The spatial sizes of the result; an error if the window does not fit.
llvm::Expected<Dims> windowPlaces(const InferContext &c, const Window &w,
                                  llvm::ArrayRef<int64_t> sizes, bool ceil = false);

} // namespace isthmus
