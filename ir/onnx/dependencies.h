// Why a value of the graph is not known at import.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// What `v`, which the model calls `name`, depends on, as the rest of "expects '...' to be known at
// import, but". Where it is inputs that values are given for, they are asked for in `s.toBind`, and
// the import will be done again.
std::string whyUnknown(ImportState &s, ValueId v);

} // namespace isthmus::onnx_import
