// The calls of convolutions that products of matrices compute.
#pragma once

#include "kernels/gemm/gemm.h"
#include "runtime/kernel.h"

namespace isthmus::gemm {

enum class Which : uint8_t { Forward, Transpose, WeightGrad };

// Whether the machine has the product, and the call is on f32 and has elements to compute.
inline bool isProduct(const OpCall &call) {
  if (!isAvailable() || call.operands[0].dtype != DType::F32 || call.results[0].elements() == 0)
    return false;
  for (const Type &t : call.operands)
    if (t.elements() == 0)
      return false;
  return true;
}

} // namespace isthmus::gemm
