// Names of values by the modules that compute them, as PyTorch's newer exporter records them: its
// own names, such as `linear_3` and `val_166`, do not tell where in the network a value is made.
#pragma once

#include "ir/onnx/model.h"

namespace isthmus::onnx_import {

// The names in the graph of those results of the model's nodes that get the path of their module in
// front, by their names in the file: "encoder.layers.3.linear1.val_166" for "val_166". Outputs keep
// their names, and so does what is computed outside of all modules.
llvm::StringMap<std::string> moduleNames(const Model &m);

} // namespace isthmus::onnx_import
