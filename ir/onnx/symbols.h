// Symbolic sizes of a model's inputs, bound to numbers.
#pragma once

#include "ir/onnx/import.h"
#include "ir/onnx/model.h"

namespace isthmus::onnx_import {

struct BoundInput {
  std::string name;
  Type type;
};

struct BoundInputs {
  std::vector<BoundInput> inputs;         // without initializers
  std::map<std::string, int64_t> symbols; // sizes that are not numbers in the file
};

// The value given for an input; null if there is none. It may have no data.
const Tensor *givenValue(const OnnxOptions &options, llvm::StringRef input);

// One error names all sizes that are not bound, and one all bound names that the model does not
// have.
llvm::Expected<BoundInputs> bindInputs(const Model &m, const OnnxOptions &options);

// See onnxBatchSizes.
std::vector<std::string> batchSizes(const Model &m);

} // namespace isthmus::onnx_import
