// Tensors of a file that look like weights and were never learned, told by their contents.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/ArrayRef.h"

namespace isthmus::onnx_import {

// Of floats: infinities, or numbers so large that they stand for them, or nothing but zero and one
// large negative number.
bool looksLikeMask(const Tensor &t);

// Sines and cosines of positions, by sin^2 + cos^2 = 1: side by side in one table, by pairs or by
// halves of its last axis.
bool looksLikePositions(const Tensor &t);
// In two tables of one type.
bool looksLikeSineAndCosine(const Tensor &a, const Tensor &b);

} // namespace isthmus::onnx_import
