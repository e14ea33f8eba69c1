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
  std::vector<BoundInput> inputs;         // without those that are initializers
  std::map<std::string, int64_t> symbols; // sizes that are no numbers in the file
};

// The value that is given for an input; null if there is none. It may lack data.
const Tensor *givenValue(const OnnxOptions &options, llvm::StringRef input);

// One error names all sizes that are not bound, and one all that are bound but not there.
llvm::Expected<BoundInputs> bindInputs(const Model &m, const OnnxOptions &options);

// See onnxBatchSizes.
std::vector<std::string> batchSizes(const Model &m);

} // namespace isthmus::onnx_import
