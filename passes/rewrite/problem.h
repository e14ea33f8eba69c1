// From a graph to the planner's problem, and back from its ops to nodes and values.
#pragma once

#include "ir/graph.h"
#include "ir/storage.h"
#include "ir/target.h"
#include "passes/plan/problem.h"
#include "passes/rewrite/inverse_rules.h"

namespace isthmus {

// How a tensor that the backward pass reads may come back, where it does not stay.
struct Ways {
  // From the third iteration on the one before the last takes as much memory as any: what it reads,
  // which the last may be the last to read, is still there.
  static constexpr size_t kLeastIterations = 3;

  bool recompute = true;
  bool fetch = false;  // it goes to the host's memory and back, where the target has a link
  bool encode = false; // a smaller value stays in its place, where the reader's row knows one
  bool invert = false; // from what was made of it, by the inverse of a reader's row; this rounds
  std::vector<std::string> neverInverted; // by name: values whose inverses round too much
  size_t iterations = 0; // inverses: of each fixed point, at least kLeastIterations; none: no such
  int64_t hostBytes = INT64_MAX; // the most that all that may go to the host takes there
};

// What the rewrite makes of a run of an op of the problem.
struct Derivation {
  enum Kind : uint8_t {
    Input, // nothing: it is there
    Node,  // the node, or from the second run on a clone of it
    StartOffload,
    WaitOffload,
    StartPrefetch,
    WaitPrefetch,
    Encode,      // `encoding` of `value`
    FromEncoded, // the node, with `encoding` of `value` as operand `operand`
    Inverse // the node of `GraphProblem::inverses`, or the run of nodes that it ends, for `value`
  };
  Kind kind = Input;
  NodeId node;
  ValueId value; // that is copied, encoded or rebuilt
  uint32_t operand = 0;
  const OpDef *encoding = nullptr;
  ValueId made;      // of `inverses`: what stands for `value` once the node has run; none: not yet
  NodeId firstOfRun; // of `inverses`; none: the node alone
};

struct GraphProblem {
  plan::Problem problem;
  // Ops below `numInputs` are the graph's inputs, then come its nodes, in order, and then, by
  // `alternatives`, other ways to have what they make.
  uint32_t numInputs = 0, numNodes = 0;
  std::vector<Derivation> alternatives;
  InverseRules inverses;

  plan::OpIndex opOf(NodeId n) const { return numInputs + n.index; }
  NodeId nodeOf(plan::OpIndex op) const { return NodeId(op - numInputs); }
  bool isNode(plan::OpIndex op) const { return op >= numInputs && op < numInputs + numNodes; }
  Derivation derivationOf(plan::OpIndex op) const {
    if (op >= numInputs + numNodes)
      return alternatives[op - numInputs - numNodes];
    return isNode(op) ? Derivation{Derivation::Node, nodeOf(op)} : Derivation();
  }
  plan::Read readOf(const Graph &g, ValueId v) const;
};

// Any graph that verifies; of a rewritten one clones are ops like others, and so are its transfers,
// which take their time on the link. Errors: a node that the target cannot run; ways that the
// target lacks. What makes a graph output, and what updates state, may run only once.
llvm::Expected<GraphProblem> extractProblem(const Graph &g, const Target &t, const Ways &ways = {});

// Bytes of all graph inputs, each rounded up to the target's alignment.
int64_t persistentBytes(const Graph &g, const Target &t);

} // namespace isthmus
