// Whether the names of a model hold together.
#pragma once

#include "ir/onnx/model.h"

namespace isthmus::onnx_import {

// Every name is defined once and before it is read, in the graph, in the graphs within its nodes,
// which see the names around them, and in the functions, which see their own. Fills
// `m.outside`.
llvm::Error checkNames(Model &m);

} // namespace isthmus::onnx_import
