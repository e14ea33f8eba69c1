// Makes a graph anew from another, node by node: the way of every pass that drops, merges, reorders
// or retypes nodes, since a graph's nodes are only ever appended.
//
//   Rebuilder r(from);
//   r.copyInputs();
//   for (uint32_t i = 0; i < from.numNodes(); ++i)
//     if (wanted(NodeId(i)))
//       r.copyNode(NodeId(i));
//   return r.finish();
//
// Copies keep name, attributes, phase, marks, device, place in the file and what makes them clones
// or boundaries. Between copies the pass may add nodes of its own to `to()`, and say with `setMap`
// what stands for a value that is not copied.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// By value: outputs and the loss, which are asked for by name. A pass that puts something else in
// their place gives it that name.
llvm::BitVector namedValues(const Graph &g);

class Rebuilder {
public:
  // `from` must outlive the rebuilder.
  explicit Rebuilder(const Graph &from);
  Rebuilder(const Rebuilder &) = delete; // `to()` is referred to by builders
  Rebuilder &operator=(const Rebuilder &) = delete;

  const Graph &from() const { return from_; }
  Graph &to() { return to_; }

  // What stands in the new graph for a value, or node, of the old one; none if nothing does yet.
  ValueId map(ValueId old) const { return old ? values_[old.index] : ValueId(); }
  NodeId map(NodeId old) const { return old ? nodes_[old.index] : NodeId(); }
  void setMap(ValueId old, ValueId now) { values_[old.index] = now; }
  void setMap(NodeId old, NodeId now); // and its results, one by one

  // Inputs, in order; the second form copies one, perhaps with another type.
  void copyInputs();
  ValueId copyInput(const Input &input, const Type &type, Initializer init);

  // The operands must be mapped. The copy has the old names; nodes of the pass's own that took one
  // of them meanwhile get another.
  NodeId copyNode(NodeId old);
  // The same with other attributes, or over operands of other types: an error if these do not fit
  // the op.
  llvm::Expected<NodeId> copyNodeWith(NodeId old, Attrs attrs);

  // A name that is free in both graphs, for nodes that the pass adds.
  std::string freshName(llvm::StringRef base) const;

  // Maps outputs, loss, `after` edges, origins and boundaries, and gives the graph. `after` edges
  // to nodes that were left out are dropped, and so is a loss. Outputs must be mapped, and so must
  // what the clones and boundaries that were copied refer to.
  Graph finish();
  // The same with these outputs, values of `from`.
  struct OldOutput {
    ValueId value;
    OutputRole role;
  };
  Graph finish(llvm::ArrayRef<OldOutput> outputs);

private:
  void finishNodes();
  void addOutput(ValueId old, OutputRole role);
  void freeName(llvm::StringRef name);

  const Graph &from_;
  Graph to_;
  std::vector<ValueId> values_; // by old id
  std::vector<NodeId> nodes_;
  std::vector<std::pair<NodeId, NodeId>> copies_; // old and new
  bool hasSourceOrder_;
  mutable llvm::StringMap<unsigned> nextSuffix_; // only a hint
};

} // namespace isthmus
