// Tensors as .npy files (NumPy's format, versions 1 to 3), little-endian and row-major.
#pragma once

#include "ir/tensor.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {

// Errors say what was expected, and the first names the file. A tensor lies in the bytes that were
// read, and keeps them alive, where it can. bf16 is read from and written as '<V2', as NumPy shows
// it.
llvm::Expected<Tensor> readNpy(const std::string &path);
llvm::Expected<Tensor> parseNpy(std::shared_ptr<const llvm::MemoryBuffer> bytes);
void writeNpy(const Tensor &t, llvm::raw_ostream &to);

} // namespace isthmus
