// Tensor files: each holds one serialized TensorProto, the format of the test data of ONNX models.
#pragma once

#include "ir/tensor.h"
#include "llvm/Support/Error.h"
#include <string>

namespace isthmus {

struct NamedTensor {
  std::string name; // may be empty
  Tensor tensor;
};

// Errors name the file: it is unreadable, holds no tensor (a sequence, for instance), or has an
// unsupported element type.
llvm::Expected<NamedTensor> readOnnxTensor(const std::string &path);

} // namespace isthmus
