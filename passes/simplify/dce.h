// Dead code elimination. A node is live if a result of it reaches an output or the graph's loss.
//
// All inputs stay, so that the interface does not change; `after` edges to dead nodes are dropped.
// A wait for a copy or a message is live if that is.
// The origin of a live clone and the value that a live boundary passes are live as well, because
// they define its meaning. Linear in the graph.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// The live nodes, by node id.
llvm::BitVector liveNodes(const Graph &g);
// The same with `outputs` in place of the graph's outputs.
llvm::BitVector liveNodes(const Graph &g, llvm::ArrayRef<ValueId> outputs);

Graph withoutDeadNodes(const Graph &g);

} // namespace isthmus
