// The PyTorch operator that a node stands for, as recorded by PyTorch's newer exporter.
#pragma once

#include "ir/onnx/model.h"

namespace isthmus::onnx_import {

// "aten.amax.default", or "" if none is recorded. Several PyTorch operators that differ only in
// their gradients map to one ONNX operator.
llvm::StringRef torchOp(const onnx::NodeProto &n);

} // namespace isthmus::onnx_import
