// Recognizes, by their contents, tensors that look like weights but were never learned.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/ArrayRef.h"

namespace isthmus::onnx_import {

// Floats with infinities or numbers large enough to stand for them, or with only zeros and one
// large negative number.
bool looksLikeMask(const Tensor &t);

// A table of sines and cosines of positions, recognized by sin^2 + cos^2 = 1: they alternate along
// its last axis, or fill one half of it each.
bool looksLikePositions(const Tensor &t);
// The same for two tables of one type.
bool looksLikeSineAndCosine(const Tensor &a, const Tensor &b);

} // namespace isthmus::onnx_import
