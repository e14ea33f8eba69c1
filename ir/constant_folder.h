// Computes an op at compile time. Layers that have kernels provide the implementation; ir/ and
// passes/ see only this signature.
#pragma once

#include "ir/op_def.h"
#include "ir/tensor.h"
#include <functional>

namespace isthmus {

using TensorList = llvm::SmallVector<Tensor, 2>;

// The results of `call` on `operands`, or an error if it has no kernel. Never called for random
// ops.
using ConstantFolder =
    std::function<llvm::Expected<TensorList>(const OpCall &call, llvm::ArrayRef<Tensor> operands)>;

} // namespace isthmus
