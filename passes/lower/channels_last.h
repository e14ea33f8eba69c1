// Channels last: on some devices convolutions are fast only on tensors [N, spatial..., C]. Changes
// rounding: sums have another order.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Whether the graph has a convolution of one of these element types with channels on axis 1.
bool convolvesChannelsFirst(const Graph &g, llvm::ArrayRef<DType> types);

// The same graph with channels last where it pays. Convolutions and batch norm compute with
// channels last (their rows have the attribute `channels_last`). Nodes between them follow where
// the op table says how. So a tensor is transposed only where it enters, where it leaves, or where
// it meets an op that needs channels on axis 1: pools, reshapes, and random ops, whose numbers
// depend on an element's index. Each tensor, weights included, is transposed once for all its
// readers.
//
// Accepts forward and differentiated graphs. Inputs and outputs keep names and types; nodes keep
// names, marks, phases and streams. A tensor that exists in both layouts has a name of its own in
// the second one. A graph without convolutions is returned
// unchanged, and so is a rewritten one, whose layout was chosen before it was planned. Dead nodes
// are removed.
Graph withChannelsLast(const Graph &g);

} // namespace isthmus
