// Tensors as .npy files (NumPy's format, versions 1 to 3), little-endian and row-major.
#pragma once

#include "ir/tensor.h"
#include "llvm/Support/Error.h"

namespace isthmus {

// Errors name the file and say what was expected. bf16 is read from and written as '<V2', as NumPy
// shows it.
llvm::Expected<Tensor> readNpy(const std::string &path);
std::string npyBytes(const Tensor &t);

} // namespace isthmus
