// The inverses of a graph's nodes as a graph: for an operand of a node, the nodes that rebuild it
// from the node's results and its other operands. They come from the inverse rule of the node's
// row, from parts that cover a value (joined_parts.h), from formulas of several nodes
// (inverse_formulas.h), or, for a sum x + f(x), from iterations of f.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct InverseRule {
  NodeId reader;    // of the graph: the node that is inverted, or the first of several
  ValueId rebuilds; // of the graph: the root value of the operand's storage
  ValueId made;     // of `nodes`: the value that replaces `rebuilds`
  // Of `nodes`: the first and the last node of the iterations of a fixed point; only `made` is read
  // from outside. Null: the rule comes from the op's row.
  NodeId firstOfRun, lastOfRun;

  bool isRun() const { return bool(firstOfRun); }
};

struct InverseRules {
  Graph nodes;                    // its inputs correspond to values of the graph
  std::vector<ValueId> standsFor; // by input value of `nodes`: the value of the graph
  std::vector<InverseRule> rules; // in the order of the readers

  // The value without views: the operand of the first view in a chain of views, else `v` itself.
  ValueId baseOf(ValueId v) const;
  // The nodes that a rule runs, views included, in topological order. Rules share nodes that depend
  // on weights alone (inverses of weights).
  std::vector<NodeId> nodesOf(const InverseRule &rule) const;
};

struct InverseRuleOptions {
  // Whether to write rules for operands in this storage.
  std::function<bool(ValueId root)> isWanted;
  // For the inverse of a whole graph: also write rules for nodes that are views, and for slices
  // from other slices of the same value. Weights are those of the graph and do not change.
  bool ofAll = false;
  size_t iterations = 0; // for each fixed point; 0: such sums get no rule
};

// Writes rules for forward nodes that are no clones, where the graph meets the preconditions of the
// row's rule. If an operand is a view, its storage is rebuilt through the inverses of the views.
InverseRules inverseRules(const Graph &g, const InverseRuleOptions &o);

} // namespace isthmus
