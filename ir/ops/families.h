// The families of the op table: one function and one file each.
#pragma once

#include "ir/builder.h"
#include "ir/op_registry.h"

namespace isthmus {

void registerElementwiseOps(OpRegistry &r); // arithmetic, comparison, activations, cast, select
void registerShapeOps(
    OpRegistry &r); // reshape, transpose, broadcast, slice, pad, concat, split, gather
void registerPartOps(OpRegistry &r);   // parts of a tensor, where they lie
void registerReduceOps(OpRegistry &r); // sum, mean, max
void registerMatmulOps(OpRegistry &r);
void registerConvOps(OpRegistry &r);
void registerPoolOps(OpRegistry &r);
void registerInterpolateOps(OpRegistry &r); // resampling at points given as operands
void registerNormOps(OpRegistry &r);        // batch and layer norm, running averages
void registerSoftmaxOps(OpRegistry &r);     // softmax, log_softmax
void registerAttentionOps(OpRegistry &r);
void registerLossOps(OpRegistry &r);   // cross_entropy, nll
void registerRandomOps(OpRegistry &r); // dropout, uniform, normal
void registerOptimizerOps(OpRegistry &r);
void registerControlOps(OpRegistry &r);  // identity, stop_gradient
void registerTransferOps(OpRegistry &r); // copies to the host's memory and back
void registerMessageOps(OpRegistry &r);  // messages between devices

} // namespace isthmus
