// Builds a new graph from another, node by node. Every pass that drops, merges, reorders or retypes
// nodes does so, since nodes can only be appended to a graph.
//
//   Rebuilder r(from);
//   r.copyInputs();
//   for (uint32_t i = 0; i < from.numNodes(); ++i)
//     if (wanted(NodeId(i)))
//       r.copyNode(NodeId(i));
//   return r.finish();
//
// Copies keep name, attributes, phase, marks, device and source location, and stay clones or
// boundaries. Between copies the pass may add nodes of its own to `to()`; with `setMap` it says
// which new value replaces an old one that is not copied.
#pragma once

#include "ir/builder.h"
#include "llvm/ADT/BitVector.h"

namespace isthmus {

// By value: the outputs and the loss, which users ask for by name. A pass that replaces one of them
// gives the replacement its name.
llvm::BitVector namedValues(const Graph &g);

class Rebuilder {
public:
  // `from` must outlive the rebuilder.
  explicit Rebuilder(const Graph &from);
  Rebuilder(const Rebuilder &) = delete; // builders hold a reference to `to()`
  Rebuilder &operator=(const Rebuilder &) = delete;

  const Graph &from() const { return from_; }
  Graph &to() { return to_; }

  // The value or node of the new graph that corresponds to an old one; null if none does yet.
  ValueId map(ValueId old) const { return old ? values_[old.index] : ValueId(); }
  NodeId map(NodeId old) const {
    return !old                     ? NodeId()
           : Graph::isReplaced(old) ? replaced_[old.index - Graph::kFirstReplaced]
                                    : nodes_[old.index];
  }
  void setMap(ValueId old, ValueId now) { values_[old.index] = now; }
  void setMap(NodeId old, NodeId now); // and its results, one by one

  // Inputs, in order; the second form copies one, perhaps with another type.
  void copyInputs();
  ValueId copyInput(const Input &input, const Type &type, Initializer init);

  // The operands must be mapped. The copy has the old names; a node that the pass added under one
  // of these names is renamed.
  NodeId copyNode(NodeId old);
  // The same with other attributes, or with operands of other types; an error if the op does not
  // accept them.
  llvm::Expected<NodeId> copyNodeWith(NodeId old, Attrs attrs);

  // A copy that does not run (Graph::addReplaced), over these operands of the new graph.
  NodeId copyReplaced(NodeId old, llvm::ArrayRef<ValueId> operands);

  // Nodes that the builder, of the new graph, makes from now on take the place of the old node:
  // they have its phase, device and source location, and are of the same gradient.
  void standWith(Builder &b, NodeId old) const;

  // A name that is free in both graphs, for nodes that the pass adds.
  std::string freshName(llvm::StringRef base) const;

  // Maps outputs, loss, `after` edges, origins and boundaries, and returns the graph. `after` edges
  // to nodes without a copy are dropped, and so is a loss without one. A gradient of a forward node
  // without a copy is that of the node that makes its values now. Outputs must be mapped, and
  // so must the origins of copied clones and the values that copied boundaries pass. Nodes that
  // chunks replaced stay so, if the pass has not copied them.
  Graph finish();
  // The same with `outputs`, which are values of `from`.
  struct OldOutput {
    ValueId value;
    OutputRole role;
  };
  Graph finish(llvm::ArrayRef<OldOutput> outputs);

private:
  void finishNodes();
  void keepReplaced();
  llvm::SmallVector<std::string, 2> freedNames(const Node &old);
  ValueId firstOf(ValueId old) const;
  NodeId forwardOf(NodeId old) const;
  void addOutput(ValueId old, OutputRole role);
  void freeName(llvm::StringRef name);

  const Graph &from_;
  Graph to_;
  std::vector<ValueId> values_; // by old id
  std::vector<NodeId> nodes_, replaced_;
  std::vector<std::pair<NodeId, NodeId>> copies_, keptReplaced_; // old and new
  bool hasSourceOrder_;
  mutable llvm::StringMap<unsigned> nextSuffix_; // only a hint
};

} // namespace isthmus
