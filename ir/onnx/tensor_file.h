// Tensors in files of their own: a serialized TensorProto each, as the test data of ONNX models has
// them.
#pragma once

#include "ir/tensor.h"
#include "llvm/Support/Error.h"
#include <string>

namespace isthmus {

struct NamedTensor {
  std::string name; // may be empty
  Tensor tensor;
};

// Errors name the file: unreadable, no tensor (a sequence, for instance), an element type that we
// do not have.
llvm::Expected<NamedTensor> readOnnxTensor(const std::string &path);

} // namespace isthmus
