// What PyTorch's newer exporter notes beside a node: which of PyTorch's own operators it stands
// for.
#pragma once

#include "ir/onnx/model.h"

namespace isthmus::onnx_import {

// "aten.amax.default", or "" where nothing is noted. Some differ in their gradients alone, and ONNX
// has one operator for them.
llvm::StringRef torchOp(const onnx::NodeProto &n);

} // namespace isthmus::onnx_import
