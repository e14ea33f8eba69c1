// Merges equal nodes: same op, operands, attributes and device. The first of them stays.
//
// All ops are pure, random ones too: equal streams draw equal numbers, other streams are other
// attributes. Left alone are
// - clones and boundaries, on either side: to compute again is what they are for;
// - nodes with a mark, an `after` edge, or a result that is an output or the loss: these are asked
// for
//   by name or at their place (others may be merged into them);
// - a node of an earlier phase than the one before it: forward nodes do not read backward ones.
// Results are the same bit for bit. Expected linear time.
#pragma once

#include "ir/graph.h"

namespace isthmus {

Graph withoutEqualNodes(const Graph &g);

} // namespace isthmus
