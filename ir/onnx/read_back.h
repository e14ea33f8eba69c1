// Reads back a model that we wrote (ir/onnx/export): the very graph, row by row.
#pragma once

#include "ir/graph.h"
#include "ir/onnx/model.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus::onnx_import {

// Whether the file says that we wrote it.
bool isOurs(const Model &m);

// The graph. `data` has the initializers by name. Nothing, with the reason in `why`, where another
// tool has changed what our metadata tell of: it is then a model like any other.
std::optional<Graph> readBack(const Model &m, const llvm::StringMap<Tensor> &data,
                              std::string &why);

} // namespace isthmus::onnx_import
