// From a graph to the planner's problem, and back from its ops to nodes and values.
#pragma once

#include "ir/graph.h"
#include "ir/storage.h"
#include "ir/target.h"
#include "passes/plan/problem.h"

namespace isthmus {

// The pairs of a node's row that hold here: result and operand are of one size to the byte, neither
// is a view of something persistent, and no other operand shares the storage (but for elementwise
// ops, where each element is read before it is written).
llvm::SmallVector<InPlace, 2> inPlacePairs(const Graph &g, NodeId n, llvm::ArrayRef<ValueId> roots);

struct GraphProblem {
  plan::Problem problem;
  uint32_t numInputs = 0; // ops below this are the graph's inputs, the others its nodes, in order

  plan::OpIndex opOf(NodeId n) const { return numInputs + n.index; }
  NodeId nodeOf(plan::OpIndex op) const { return NodeId(op - numInputs); }
  bool isNode(plan::OpIndex op) const { return op >= numInputs; }
  plan::Read readOf(const Graph &g, ValueId v) const;
};

// Any graph that verifies; of a rewritten one the clones are ops like others. Errors: a node that
// the target cannot run. What makes a graph output, and what updates state, may run only once.
llvm::Expected<GraphProblem> extractProblem(const Graph &g, const Target &t);

// Bytes of all graph inputs, each rounded up to the target's alignment.
int64_t persistentBytes(const Graph &g, const Target &t);

} // namespace isthmus
