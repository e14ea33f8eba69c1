// Computes an op at compile time. Who has kernels makes one; ir/ and passes/ see only this
// signature.
#pragma once

#include "ir/op_def.h"
#include "ir/tensor.h"
#include <functional>

namespace isthmus {

using TensorList = llvm::SmallVector<Tensor, 2>;

// The results of `call` on `operands`, or an error if there is no kernel for it. Never asked about
// random ops.
using ConstantFolder =
    std::function<llvm::Expected<TensorList>(const OpCall &call, llvm::ArrayRef<Tensor> operands)>;

} // namespace isthmus
