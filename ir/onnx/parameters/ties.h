// Finds tensors that are one parameter.
#pragma once

#include "ir/onnx/parameters/candidates.h"

namespace isthmus::onnx_import {

// Runs after the rules. Sets `sameAs` and `how`: first for tensors that equal a parameter bit for
// bit except for shape, order or precision, or that are 1 - it or 1 / it; then for the pairs in
// `options.ties`. Errors: a name of `ties` or `untie` that matches nothing, tensors whose numbers
// differ, circular ties.
llvm::Error tieCandidates(Candidates &candidates, Decisions &decisions);

} // namespace isthmus::onnx_import
