// Explains why a value of the graph is not known at import.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// The inputs, parameters or random numbers on which `v` (`name` in the model) depends, as the rest
// of the message "expects '...' to be known at import, but". If it depends only on inputs, those
// with given values are added to `s.toBind`, and the import starts again.
std::string whyUnknown(ImportState &s, ValueId v);

} // namespace isthmus::onnx_import
