// Sampling of images between their elements, at coordinates that the model computes. Each axis has
// tensors [batch, points, taps] of weights and indices; their products over all axes are the
// operands of the row `interpolate`. Everything is elementwise, so the coordinates have gradients
// of any order.
#pragma once

#include "ir/onnx/numbers.h"

namespace isthmus::onnx_import {

// The elements read along one axis. `inside` marks taps within the image; if invalid, all are.
struct AxisTaps {
  int64_t size; // the axis's length
  Operand weights, at, inside;
};

// The element type of coordinates and weights beside an image of this type.
inline DType wideType(DType image) { return image == DType::F64 ? DType::F64 : DType::F32; }

enum class Beyond { Zeros, Border, Reflection };

// Mirrors coordinates outside [low, high] back into the interval.
Operand reflected(NodeContext &n, const Operand &x, double low, double high);

// The taps around each coordinate: the nearest element, the two around it, or the four around it
// (Keys' cubic of 1981, with its parameter at -0.75). `coordinate` is [batch, points, 1], and whole
// numbers for nearestTaps. Reflection mirrors at `low` and `high`.
AxisTaps nearestTaps(NodeContext &n, const Operand &coordinate, int64_t size, Beyond beyond);
AxisTaps linearTaps(NodeContext &n, const Operand &coordinate, int64_t size, Beyond beyond);
AxisTaps cubicTaps(NodeContext &n, const Operand &coordinate, int64_t size, Beyond beyond,
                   double low, double high);

// All pairs of the taps of two axes. Both have the same batch and points.
AxisTaps product(NodeContext &n, const AxisTaps &outer, const AxisTaps &inner);

// The index operand of `interpolate`: indices, or -1 for elements outside the image.
Operand places(NodeContext &n, const AxisTaps &taps);

// Samples of `x` [batch, channels, axes...] as [batch, channels, points].
Operand sampled(NodeContext &n, const Operand &x, llvm::ArrayRef<AxisTaps> axes);

} // namespace isthmus::onnx_import
