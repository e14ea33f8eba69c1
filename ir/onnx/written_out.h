// Functions that exporters write out in several operators, and that are one row here. By the row
// their gradients need one tensor, and are numbers where those of the parts would be NaN.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// scale * a * b, where it is a GELU, a SiLU, or a swish: in opsets below 20 and 24, and where
// people write them by hand.
std::optional<Operand> activationOfProduct(NodeContext &n, const Operand &a, const Operand &b,
                                           double scale = 1);
// The same where `product` is one.
std::optional<Operand> activationOfScaled(NodeContext &n, const Operand &product, double scale);

// where(condition, zero, y), where it is a softmax with zero in place of NaN: the weights of an
// attention, in opsets below 23, of which a query that sees no key has none.
std::optional<Operand> softmaxOfMasked(NodeContext &n, const Operand &condition,
                                       const Operand &zero, const Operand &y);

} // namespace isthmus::onnx_import
