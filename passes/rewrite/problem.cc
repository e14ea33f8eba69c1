#include "passes/rewrite/problem.h"

#include "passes/plan/sizes.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

llvm::SmallVector<InPlace, 2> inPlacePairs(const Graph &g, NodeId id,
                                           llvm::ArrayRef<ValueId> roots) {
  llvm::SmallVector<InPlace, 2> pairs;
  const Node &n = g.node(id);
  for (const InPlace &pair : n.op->inPlace) {
    if (pair.operand >= n.operands.size())
      continue;
    ValueId root = roots[n.operands[pair.operand].index];
    bool isPersistent = !g.value(root).def;
    // Exactly: an operand that is broadcast may round up to the same size, and is read again.
    bool sameSize = g.type(root).bytes() == g.type(n.result(pair.result)).bytes();
    auto sharing = llvm::count_if(n.operands, [&](ValueId v) { return roots[v.index] == root; });
    if (!isPersistent && sameSize && (sharing == 1 || n.op->is(kElementwise)))
      pairs.push_back(pair);
  }
  return pairs;
}

plan::Read GraphProblem::readOf(const Graph &g, ValueId v) const {
  const Value &value = g.value(v);
  if (!value.def)
    return {value.resultIndex, 0};
  return {opOf(value.def), value.resultIndex};
}

static llvm::Error tooLarge(const Graph &g, ValueId v) {
  return makeError("with '%{0}', of type {1}, all tensors together need over 2^62 bytes, the most "
                   "that is supported; make sizes smaller",
                   g.valueName(v), g.type(v).str());
}

llvm::Expected<GraphProblem> extractProblem(const Graph &g, const Target &t) {
  GraphProblem out;
  out.numInputs = static_cast<uint32_t>(g.inputs().size());
  out.problem.alignment = t.alignment;
  std::vector<plan::Op> &ops = out.problem.ops;
  plan::SizeLimit sizes(out.problem);
  ops.reserve(out.numInputs + g.numNodes());
  for (const Input &input : g.inputs()) {
    plan::Op op;
    op.name = g.valueName(input.value).str();
    op.isPinned = true;
    op.outputBytes = {g.type(input.value).bytes()};
    if (!sizes.allows(op))
      return locate(tooLarge(g, input.value), g.whereIs(g.value(input.value).loc));
    ops.push_back(std::move(op));
  }

  llvm::DenseSet<ValueId> isOutput(g.outputs().begin(), g.outputs().end());
  std::vector<ValueId> roots = storageRoots(g);
  llvm::DenseSet<ValueId> outputRoots;
  for (ValueId v : g.outputs())
    outputRoots.insert(roots[v.index]);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    NodeId id(i);
    const Node &n = g.node(id);
    OpCall call = g.call(id);
    plan::Op op;
    op.name = g.nodeName(id).str();
    op.phase = static_cast<plan::OpPhase>(n.phase);
    op.cost = 1e6 * t.seconds(call);
    for (ValueId v : n.operands)
      op.inputs.push_back(out.readOf(g, v));
    op.recomputable = n.phase != Phase::Update;
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (isOutput.count(n.result(r)) || outputRoots.count(n.result(r)))
        op.recomputable = false;
    if (n.op->is(kView)) {
      op.viewOf = 0;
    } else {
      auto workspace = t.workspaceBytes(call);
      if (!workspace)
        return locate(workspace.takeError(), g.whereIs(id));
      op.workspace = *workspace;
      for (const Type &type : call.results)
        op.outputBytes.push_back(type.bytes());
      for (const InPlace &pair : inPlacePairs(g, id, roots))
        op.donations.push_back({pair.result, pair.operand});
    }
    if (!sizes.allows(op))
      return locate(tooLarge(g, n.firstResult), g.whereIs(id));
    ops.push_back(std::move(op));
  }
  for (ValueId v : g.outputs())
    out.problem.outputs.push_back(out.readOf(g, v));
  return out;
}

int64_t persistentBytes(const Graph &g, const Target &t) {
  int64_t bytes = 0;
  for (const Input &i : g.inputs())
    bytes += t.rounded(g.type(i.value).bytes());
  return bytes;
}

} // namespace isthmus
