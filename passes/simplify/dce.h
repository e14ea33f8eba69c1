// Dead code removal. A node is live if a result of it reaches an output or the loss that the file
// names.
//
// Inputs all stay, so that the interface does not change; `after` edges to dead nodes go with them.
// What a live clone or boundary refers to is live as well: its meaning rests on it. Linear in the
// graph.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// By node id.
llvm::BitVector liveNodes(const Graph &g);
// The same, were these the outputs.
llvm::BitVector liveNodes(const Graph &g, llvm::ArrayRef<ValueId> outputs);

Graph withoutDeadNodes(const Graph &g);

} // namespace isthmus
