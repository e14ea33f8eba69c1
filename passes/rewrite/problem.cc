#include "passes/rewrite/problem.h"

#include "passes/plan/sizes.h"
#include "passes/rewrite/alternatives.h"
#include "passes/rewrite/in_place.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

plan::Read GraphProblem::readOf(const Graph &g, ValueId v) const {
  const Value &value = g.value(v);
  if (!value.def)
    return {value.resultIndex, 0};
  return {opOf(value.def), value.resultIndex};
}

namespace {

class Extraction {
public:
  Extraction(const Graph &g, const Target &t, const Ways &ways)
      : g_(g), t_(t), ways_(ways), roots_(storageRoots(g)), sizes_(out_.problem),
        isOutput_(g.numValues(), false), numWaits_(g.numValues(), 0) {}

  llvm::Expected<GraphProblem> run() {
    out_.numInputs = static_cast<uint32_t>(g_.inputs().size());
    out_.numNodes = static_cast<uint32_t>(g_.numNodes());
    out_.problem.alignment = t_.alignment;
    out_.problem.ops.reserve(out_.numInputs + out_.numNodes);
    lookAhead();
    for (const Input &input : g_.inputs())
      if (llvm::Error e = addInput(input))
        return e;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (llvm::Error e = addNode(NodeId(i)))
        return e;
    for (ValueId v : g_.outputs())
      out_.problem.outputs.push_back(out_.readOf(g_, v));
    if (llvm::Error e = addAlternatives(out_, g_, t_, ways_))
      return e;
    return std::move(out_);
  }

private:
  void lookAhead() {
    for (ValueId v : g_.outputs()) {
      isOutput_[v.index] = true;
      isOutput_[roots_[v.index].index] = true;
    }
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (const Node &n = g_.node(NodeId(i)); n.op->is(kWait))
        ++numWaits_[n.operands[1].index];
  }

  // Whether `n` is the start or the only wait of a transfer made by a rewrite. Such a transfer
  // takes time on the link, in parallel with the computation.
  bool isFollowed(const Node &n) const {
    const Node &start = n.op->is(kWait) ? g_.node(g_.value(n.operands[1]).def) : n;
    return start.op->is(kTransfer) && n.is(StandIn::Transfer) &&
           numWaits_[start.result(1).index] == 1;
  }

  llvm::Error addOp(plan::Op op, ValueId made, const std::string &where) {
    if (!sizes_.allows(op))
      return locate(makeError("with '%{0}', of type {1}, all tensors together need over 2^62 "
                              "bytes, the most that is supported; make sizes smaller",
                              g_.valueName(made), g_.type(made).str()),
                    where);
    out_.problem.ops.push_back(std::move(op));
    return llvm::Error::success();
  }

  llvm::Error addInput(const Input &input) {
    plan::Op op;
    op.name = g_.valueName(input.value).str();
    op.isPinned = true;
    op.outputBytes = {g_.type(input.value).bytes()};
    return addOp(std::move(op), input.value, g_.whereIs(g_.value(input.value).loc));
  }

  llvm::Error addNode(NodeId id) {
    const Node &n = g_.node(id);
    const OpCall call = g_.call(id);
    plan::Op op;
    op.name = g_.nodeName(id).str();
    op.phase = static_cast<plan::OpPhase>(n.phase);
    op.cost = 1e6 * (t_.seconds(call) + secondsAgain(n));
    for (ValueId v : n.operands)
      op.inputs.push_back(out_.readOf(g_, v));
    op.recomputable = (ways_.recompute || n.op->is(kView)) && mayRunAgain(n);
    if ((n.op->is(kTransfer) || n.op->is(kWait)) && isFollowed(n)) {
      follow(n, op);
    } else if (n.op->is(kView)) {
      op.viewOf = 0;
    } else {
      if (n.op->is(kTransfer)) // not paired with one wait: its time counts as cost
        op.cost = 1e6 * t_.transferSeconds(call.results[0].bytes());
      else if (llvm::Error e = setWorkspace(op, call))
        return locate(std::move(e), g_.whereIs(id));
      addResults(n, op);
      for (const InPlace &pair : inPlacePairs(g_, id, roots_))
        op.donations.push_back({pair.result, pair.operand});
    }
    return addOp(std::move(op), n.firstResult, g_.whereIs(id));
  }

  // The time in which a product of a later chunk reads and reorders operands again that all chunks
  // read whole. Kernels pack such an operand for its product, and a thin product does not hide
  // that.
  double secondsAgain(const Node &n) const {
    const Node &c = n.isClone() ? g_.node(n.from.origin) : n;
    const NodeId def = c.is(StandIn::Chunk) ? g_.value(c.from.restores).def : NodeId();
    if (!def || c.from.chunk == 0 || !c.op->is(kContraction) || t_.measured)
      return 0;
    const Node &whole = g_.node(def);
    if (c.operands.size() < whole.operands.size())
      return 0;
    const size_t before = c.operands.size() - whole.operands.size(); // a sum that goes on
    double bytes = 0;
    for (size_t i = 0; i < whole.operands.size(); ++i)
      if (const Type &t = g_.type(whole.operands[i]); g_.type(c.operands[before + i]) == t)
        bytes += double(t.bytes());
    return 2 * bytes / t_.bytesPerSecond;
  }

  // Results that overwrite a graph input take no bytes.
  void addResults(const Node &n, plan::Op &op) const {
    for (uint32_t r = 0; r < n.numResults; ++r) {
      const ValueId v = n.result(r), root = roots_[v.index];
      op.outputBytes.push_back(root == v ? g_.type(v).bytesIn(Memory::Device) : 0);
      if (root != v)
        op.overwrites.push_back(uint32_t(llvm::find(n.operands, root) - n.operands.begin()));
    }
  }

  llvm::Error setWorkspace(plan::Op &op, const OpCall &call) {
    auto workspace = t_.workspaceBytes(call);
    if (!workspace)
      return workspace.takeError();
    op.workspace = *workspace;
    return llvm::Error::success();
  }

  // Whether the node may run more than once.
  bool mayRunAgain(const Node &n) const {
    bool may = n.phase != Phase::Update && !n.op->runsOnce && !n.op->is(kTransfer) &&
               !n.op->is(kWait);
    for (uint32_t r = 0; r < n.numResults; ++r)
      may &= !isOutput_[n.result(r).index];
    return may;
  }

  void follow(const Node &n, plan::Op &op) {
    using Transfer = plan::Op::Transfer;
    const bool isWait = n.op->is(kWait);
    const Node &start = isWait ? g_.node(g_.value(n.operands[0]).def) : n;
    const Type &made = g_.type(start.firstResult);
    const bool isToHost = made.memory == Memory::Host;
    op.cost = 0;
    op.inputs.resize(1); // a wait reads its start, which keeps the other operands live
    if (isWait) {
      op.transfer = isToHost ? Transfer::WaitOffload : Transfer::WaitPrefetch;
      op.outputBytes = {0};
      return;
    }
    op.transfer = isToHost ? Transfer::StartOffload : Transfer::StartPrefetch;
    op.transferTime = 1e6 * t_.transferSeconds(made.bytes());
    if (!isToHost)
      op.outputBytes = {made.bytes()};
  }

  const Graph &g_;
  const Target &t_;
  const Ways &ways_;
  GraphProblem out_;
  std::vector<ValueId> roots_;
  plan::SizeLimit sizes_;
  std::vector<bool> isOutput_;     // by value: it or a view of it is an output
  std::vector<uint32_t> numWaits_; // by token: number of its waits
};

} // namespace

llvm::Expected<GraphProblem> extractProblem(const Graph &g, const Target &t, const Ways &ways) {
  return Extraction(g, t, ways).run();
}

int64_t persistentBytes(const Graph &g, const Target &t) {
  int64_t bytes = 0;
  for (const Input &i : g.inputs())
    bytes += t.rounded(g.type(i.value).bytes());
  return bytes;
}

} // namespace isthmus
