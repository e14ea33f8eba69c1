// Which tensors are one parameter.
#pragma once

#include "ir/onnx/parameters/candidates.h"

namespace isthmus::onnx_import {

// After the rules have decided. Sets `sameAs` and `how`: first of tensors that are a parameter bit
// for bit, but for their shape, order or precision, or that are 1 - it or 1 / it; then as
// `options.ties` asks. Errors: a name of `ties` or `untie` that fits nothing, tensors whose numbers
// differ, ties in a circle.
llvm::Error tieCandidates(Candidates &candidates, Decisions &told);

} // namespace isthmus::onnx_import
