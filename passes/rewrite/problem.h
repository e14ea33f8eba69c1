// Extracts the planner's problem from a graph, and maps its ops back to nodes and values.
#pragma once

#include "ir/graph.h"
#include "ir/inverse_rules.h"
#include "ir/storage.h"
#include "ir/target.h"
#include "passes/plan/problem.h"

namespace isthmus {

// The alternatives that the planner may use to rematerialize a tensor for the backward pass.
struct Ways {
  // With three or more iterations the memory for them no longer grows: the iteration before the
  // last needs the most, because its operands are live until the last iteration reads them.
  static constexpr size_t kLeastIterations = 3;
  static constexpr size_t kMostIterations = 10'000; // the graph has nodes for each

  bool recompute = true;
  bool fetch = false;  // by a copy to the host's memory and back; needs a target with a link
  bool encode = false; // by a smaller encoding, where the reader's row has one
  bool invert = false; // by the inverse of a reader's row; this rounds
  bool chunk =
      false; // regions may run chunk by chunk (passes/chunk); no alternative of the problem
  std::vector<std::string> neverInverted; // names of values whose inverses round too much
  size_t iterations = 0;         // for inverses of fixed points: at least kLeastIterations; 0: none
  int64_t hostBytes = INT64_MAX; // bytes of host memory for all offloads
};

// What the rewrite emits for a step of an op of the problem.
struct Derivation {
  enum Kind : uint8_t {
    Input, // nothing: graph inputs are always live
    Node,  // the node or, from the second step on, a clone of it
    StartOffload,
    WaitOffload,
    StartPrefetch,
    WaitPrefetch,
    Encode,      // `encoding` of `value`
    FromEncoded, // the node, with `encoding` of `value` as operand `operand`
    Inverse // a node of `GraphProblem::inverses`, or the nodes from `firstOfRun` to it, for `value`
  };
  Kind kind = Input;
  NodeId node;
  ValueId value; // the value that is copied, encoded or rebuilt
  uint32_t operand = 0;
  const OpDef *encoding = nullptr;
  ValueId made; // of `inverses`: the value that replaces `value` after the node; null for a helper
  NodeId firstOfRun; // of `inverses`; null: the node alone
};

struct GraphProblem {
  plan::Problem problem;
  // The ops are, in order: the graph's inputs, its nodes, and the alternatives, one for each entry
  // of `alternatives`.
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

// Accepts any graph that verifies. In a rewritten graph, clones are ops like others, and transfers
// take their time on the link. Nodes that make a graph output or update state may run only once.
// Errors: a node that the target cannot run; alternatives that the target does not support.
llvm::Expected<GraphProblem> extractProblem(const Graph &g, const Target &t, const Ways &ways = {});

// The bytes of all graph inputs, each rounded up to the target's alignment.
int64_t persistentBytes(const Graph &g, const Target &t);

} // namespace isthmus
