// Elements of normalisations, on every device.
#pragma once

#include "kernels/element/dtype.h"

namespace isthmus::element {

template <typename C> struct RunningAverage {
  C momentum, rest;
  explicit RunningAverage(double momentum) : momentum(C(momentum)), rest(C(1 - momentum)) {}
  ISTHMUS_DEVICE C operator()(C old, C now) const { return momentum * old + rest * now; }
};

} // namespace isthmus::element
