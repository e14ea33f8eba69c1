// A tensor as columns along an axis, on every device.
#pragma once

#include "ir/op_def.h"
#include "ir/rank.h"
#include "kernels/element/portable.h"

namespace isthmus::element {

// Column c begins at element `start(c)`; its neighbouring elements are `step` apart.
struct Columns {
  Columns(const OpCall &call, const Type &t) {
    int64_t axis = axisFromFront(call.attrs->getInt("axis"), t.rank());
    length = t.dims[axis];
    for (int64_t i = 0; i < t.rank(); ++i)
      if (i != axis)
        (i < axis ? outer : step) *= t.dims[i];
  }
  int64_t outer = 1, length, step = 1;
  int64_t count() const { return outer * step; }
  ISTHMUS_DEVICE int64_t start(int64_t column) const {
    return column / step * length * step + column % step;
  }
};

// The direction of a scan: where in a column it begins, and its step.
struct Run {
  Run(const OpCall &call, const Columns &c)
      : reverse(call.attrs->getBool("reverse")), step(reverse ? -c.step : c.step),
        offset(reverse ? (c.length - 1) * c.step : 0) {}
  bool reverse;
  int64_t step, offset;
};

} // namespace isthmus::element
