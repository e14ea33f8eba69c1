// The tensor that a view of another is.
#pragma once

#include "ir/op_def.h"
#include "ir/tensor.h"

namespace isthmus {

// Result 0 of a view of `x`; it shares x's bytes.
inline Tensor viewOf(const OpCall &call, const Tensor &x) {
  return {call.results[0], x.owner, x.data + viewOffset(call)};
}

} // namespace isthmus
