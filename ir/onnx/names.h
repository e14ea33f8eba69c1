// Checks that the names of a model are consistent.
#pragma once

#include "ir/onnx/model.h"

namespace isthmus::onnx_import {

// Checks that every name is defined once and before its uses: in the graph, in the graphs within
// its nodes, which also see the enclosing names, and in the functions, which see only their own.
// Fills `m.outside`.
llvm::Error checkNames(Model &m);

} // namespace isthmus::onnx_import
