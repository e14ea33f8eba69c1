// Constant folding at compile time with the plain kernels.
#pragma once

#include "ir/constant_folder.h"

namespace isthmus {

// A ConstantFolder. It returns the results of the call's plain kernel; for a view, the operand's
// bytes with the result's type.
llvm::Expected<TensorList> foldWithPlainKernels(const OpCall &call,
                                                llvm::ArrayRef<Tensor> operands);

} // namespace isthmus
