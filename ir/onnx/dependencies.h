// Values of the graph that must be known at import: the condition of a branch, a number of turns, a
// size. They are computed from the values that are given for the inputs.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// `v` as it is for the given inputs, with a note for each of them. The graph computes from its
// inputs all the same: only what depends on this value is settled. Null if `v` depends on anything
// else; `why` is then the rest of the message "expects '...' to be known at import, but".
const Tensor *decidedValue(ImportState &s, ValueId v, std::string &why);

} // namespace isthmus::onnx_import
