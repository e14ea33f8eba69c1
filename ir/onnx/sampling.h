// Sampling of images between their elements, at places that the model computes. What is known of
// each axis are tensors [batch, points, taps] of weights and indices; their products over all axes
// are what the row `interpolate` takes. Everything is elementwise, so gradients for the places
// follow, of any order.
#pragma once

#include "ir/onnx/numbers.h"

namespace isthmus::onnx_import {

// What is read along one axis. `inside` says which elements are there; without it all are.
struct AxisTaps {
  int64_t size; // of the axis
  Operand weights, at, inside;
};

// The element type of coordinates and weights beside an image of this type.
inline DType wideType(DType image) { return image == DType::F64 ? DType::F64 : DType::F32; }

enum class Beyond { Zeros, Border, Reflection };

// Where a coordinate lies beyond [low, high], what stands for it there.
Operand reflected(NodeContext &n, const Operand &x, double low, double high);

// Weights of the element at each whole coordinate (one tap), of two around it, or of four (Keys'
// cubic of 1981, with its parameter at -0.75). `coordinate` is [batch, points, 1]. `low` and
// `high` are where reflection turns round.
AxisTaps nearestTaps(NodeContext &n, const Operand &coordinate, int64_t size, Beyond beyond);
AxisTaps linearTaps(NodeContext &n, const Operand &coordinate, int64_t size, Beyond beyond);
AxisTaps cubicTaps(NodeContext &n, const Operand &coordinate, int64_t size, Beyond beyond,
                   double low, double high);

// The taps of two axes, each with each: first with the batch and points of both.
AxisTaps product(NodeContext &n, const AxisTaps &outer, const AxisTaps &inner);

// Places for the row: indices, or -1 for elements that are not there.
Operand places(NodeContext &n, const AxisTaps &taps);

// Samples of `x` [batch, channels, axes...] as [batch, channels, points].
Operand sampled(NodeContext &n, const Operand &x, llvm::ArrayRef<AxisTaps> axes);

} // namespace isthmus::onnx_import
