// The inverses of a graph's nodes, written down: for an operand of a node, nodes that rebuild it
// from what the node made of it and from its other operands, by the rule of the node's row or, for
// a sum x + f(x), by iterations of f.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct InverseRule {
  NodeId reader;    // of the graph: the node that is undone
  ValueId rebuilds; // of the graph: the storage of its operand, by the value that is its root
  ValueId made;     // of `nodes`: what stands for it
  // Of `nodes`, in order: iterations of a fixed point, of which nothing but `made` is of use to
  // anyone else. None: the rule is of the row.
  NodeId firstOfRun, lastOfRun;

  bool isRun() const { return bool(firstOfRun); }
};

struct InverseRules {
  Graph nodes;                    // its inputs stand for values of the graph
  std::vector<ValueId> standsFor; // by input of `nodes`, as a value: the value of the graph
  std::vector<InverseRule> rules; // in the order of the readers

  // The value, or else the operand of the views that it passed.
  ValueId baseOf(ValueId v) const;
  // The nodes that a rule runs, views included, each after those that it reads. Rules share nodes
  // over weights (their inverses).
  std::vector<NodeId> nodesOf(const InverseRule &rule) const;
};

struct InverseRuleOptions {
  // Whether an operand in this storage is worth a rule.
  std::function<bool(ValueId root)> isWanted;
  bool ofViews = false;  // also of nodes that are views
  size_t iterations = 0; // of each fixed point; none: such sums have no rule
};

// Of forward nodes that are no clones, where the graph promises what the row's rule takes for
// granted. What passed views before a node read it is rebuilt through the views' own inverses.
InverseRules inverseRules(const Graph &g, const InverseRuleOptions &o);

} // namespace isthmus
