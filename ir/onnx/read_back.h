// Reads back a model that Isthmus wrote (ir/onnx/export): the same graph, row by row.
#pragma once

#include "ir/graph.h"
#include "ir/onnx/model.h"
#include "llvm/ADT/StringMap.h"

namespace isthmus::onnx_import {

// Whether the file's metadata say that Isthmus wrote it.
bool isOurs(const Model &m);

// The graph. `data` has the initializers by name. Nothing, with the reason in `why`, if another
// tool changed something that our metadata describe; the caller then imports it like any other
// model.
std::optional<Graph> readBack(const Model &m, const llvm::StringMap<Tensor> &data,
                              std::string &why);

} // namespace isthmus::onnx_import
