// Constants computed at compile time, by the plain kernels.
#pragma once

#include "ir/constant_folder.h"

namespace isthmus {

// A ConstantFolder: what the plain kernels give; for a view the operand's bytes under the result's
// type.
llvm::Expected<TensorList> foldWithPlainKernels(const OpCall &call,
                                                llvm::ArrayRef<Tensor> operands);

} // namespace isthmus
