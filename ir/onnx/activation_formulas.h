// Recognizes functions that exporters write out in several operators and that have one row here.
// The row's gradient saves a single tensor, and stays finite where the gradients of the parts would
// be NaN.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// scale * a * b as a GELU, SiLU or swish, if it matches one: exporters write these out below opset
// 20 (GELU) and 24 (swish), and people write them by hand.
std::optional<Operand> activationOfProduct(NodeContext &n, const Operand &a, const Operand &b,
                                           double scale = 1);
// The same for scale * product, if `product` is itself a product.
std::optional<Operand> activationOfScaled(NodeContext &n, const Operand &product, double scale);

// where(condition, zero, y) as a softmax that gives zero instead of NaN, if it matches: the
// attention weights below opset 23, where a query that sees no key has no weights.
std::optional<Operand> softmaxOfMasked(NodeContext &n, const Operand &condition,
                                       const Operand &zero, const Operand &y);

} // namespace isthmus::onnx_import
