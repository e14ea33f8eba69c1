// Channels last: on some devices convolutions are fast on tensors [N, spatial..., C] alone.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Whether there is a convolution of one of these element types whose channels are on axis 1.
bool convolvesChannelsFirst(const Graph &g, llvm::ArrayRef<DType> types);

// The same graph with channels last wherever it pays: convolutions, and batch norm with them, work
// so (their rows have the attribute `channels_last`), and what is between them follows if it can be
// told from a row how, so that tensors are transposed only where they come in, go out, or meet an
// op that needs axis 1 in its place (pools, reshapes, random ops, whose numbers go by an element's
// index). Each tensor, weights too, is transposed once for all who read it.
//
// On any forward or differentiated graph. Inputs and outputs keep names and types, nodes their
// names, marks, phases and streams; a tensor that is there in both forms has a name of its own in
// the other. Sums are the same but for their order. A graph without convolutions comes back as it
// is, and so does a rewritten one (its form was chosen before it was planned). Dead nodes go.
Graph withChannelsLast(const Graph &g);

} // namespace isthmus
