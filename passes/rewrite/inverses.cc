#include "passes/rewrite/inverses.h"

#include "ir/storage.h"
#include "passes/rebuild.h"
#include "passes/rewrite/in_place.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {
namespace {

using plan::Op;
using plan::OpIndex;

class InverseOps {
public:
  InverseOps(GraphProblem &p, const Graph &g, const Target &t)
      : p_(p), rules_(p.inverses), g_(g), t_(t), roots_(storageRoots(g)) {}

  llvm::Error run(const Ways &ways) {
    std::vector<bool> stays(g_.numValues(), false);
    for (ValueId v : g_.outputs())
      stays[roots_[v.index].index] = true;
    for (const std::string &name : ways.neverInverted)
      if (ValueId v = g_.find(name))
        stays[roots_[v.index].index] = true;
    keepComparedBits(stays);
    InverseRuleOptions o;
    o.isWanted = [&](ValueId root) {
      const NodeId def = g_.value(root).def;
      return def && g_.node(def).phase == Phase::Forward && !stays[root.index] &&
             !g_.node(def).isStandIn();
    };
    o.iterations = ways.iterations;
    rules_ = inverseRules(g_, o);
    for (const InverseRule &rule : rules_.rules)
      if (llvm::Error e = rule.isRun() ? addRun(rule) : addRule(rule))
        return locate(std::move(e), g_.whereIs(rule.reader));
    return llvm::Error::success();
  }

private:
  // Excludes values whose exact bits matter to a gradient, because an inverse rounds: relu_grad
  // would take a zero rebuilt as 1e-17 for positive, and max_grad would find no element that equals
  // the largest one.
  void keepComparedBits(std::vector<bool> &stays) const {
    std::vector<bool> isCompared(g_.numValues(), false); // by root; ancestors included
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      const Node &n = g_.node(NodeId(i));
      bool isHere = false;
      for (uint32_t r = 0; r < n.numResults; ++r) {
        const ValueId root = roots_[n.result(r).index];
        isHere |= isCompared[root.index];
        if (n.op->is(kTellsResultBits) || isCompared[root.index])
          stays[root.index] = true;
      }
      for (uint32_t k = 0; k < n.operands.size(); ++k)
        if (isHere || llvm::is_contained(n.op->comparedOperands, k))
          isCompared[roots_[n.operands[k].index].index] = true;
    }
  }

  llvm::Error addRule(const InverseRule &rule) {
    const NodeId last = rules_.nodes.value(rules_.baseOf(rule.made)).def;
    if (!last) // the operand is a view of a given value, so there is no op to add
      return llvm::Error::success();
    for (NodeId id : rules_.nodesOf(rule))
      if (!rules_.nodes.node(id).op->is(kView) && !opOf_.count(id))
        if (llvm::Error e = addOp(id, rule, id == last))
          return e;
    return llvm::Error::success();
  }

  llvm::Error addOp(NodeId id, const InverseRule &rule, bool isLast) {
    const Node &n = rules_.nodes.node(id);
    const OpCall call = rules_.nodes.call(id);
    auto workspace = t_.workspaceBytes(call);
    if (!workspace)
      return workspace.takeError();
    Op op = opOf(rule, isLast ? "" : ".helper");
    op.cost = 1e6 * t_.seconds(call);
    op.workspace = *workspace;
    for (ValueId v : n.operands)
      op.inputs.push_back(readOf(v));
    for (const Type &type : call.results)
      op.outputBytes.push_back(type.bytes());
    for (const InPlace &pair : inPlacePairs(n, [&](ValueId v) { return storageOf(v); }))
      op.donations.push_back({pair.result, pair.operand});
    if (isLast)
      setRebuilt(op, rule);
    opOf_[id] = OpIndex(p_.problem.ops.size());
    p_.problem.ops.push_back(std::move(op));
    Derivation how{Derivation::Inverse, id, rule.rebuilds};
    how.made = isLast ? rule.made : ValueId();
    p_.alternatives.push_back(how);
    return llvm::Error::success();
  }

  Op opOf(const InverseRule &rule, const char *suffix) const {
    Op op;
    op.name = (g_.valueName(rule.rebuilds) + ".from." + g_.nodeName(rule.reader) + suffix).str();
    op.phase = plan::OpPhase::Backward;
    op.isAlternative = true;
    return op;
  }

  void setRebuilt(Op &op, const InverseRule &rule) const {
    const Value &root = g_.value(rule.rebuilds);
    op.of = p_.opOf(root.def);
    op.ofOutput = g_.node(root.def).numResults == 1 ? Op::kAllOutputs : root.resultIndex;
  }

  // Adds all iterations of a fixed point as one op, whose workspace holds all their storages except
  // the result. Separate ops would give the search nothing to gain, since each iteration reads the
  // one before it.
  llvm::Error addRun(const InverseRule &rule) {
    Rebuilder r(rules_.nodes);
    Op op = opOf(rule, "");
    for (uint32_t i = rule.firstOfRun.index; i <= rule.lastOfRun.index; ++i) {
      for (ValueId v : rules_.nodes.node(NodeId(i)).operands)
        if (const Input *input = rules_.nodes.inputOf(v); input && !r.map(v)) {
          r.copyInput(*input, rules_.nodes.type(v), input->init);
          op.inputs.push_back(readOf(v));
        }
      r.copyNode(NodeId(i));
      op.cost += 1e6 * t_.seconds(rules_.nodes.call(NodeId(i)));
    }
    const Rebuilder::OldOutput made{rules_.baseOf(rule.made), {}};
    const Graph run = r.finish(made);
    auto alone = extractProblem(run, t_);
    if (!alone)
      return alone.takeError();
    const int64_t bytes = rules_.nodes.type(rule.made).bytes();
    op.outputBytes = {bytes};
    op.workspace = plan::evaluate(alone->problem, plan::sourceOrder(alone->problem)).peakBytes -
                   t_.rounded(bytes);
    setRebuilt(op, rule);
    p_.problem.ops.push_back(std::move(op));
    Derivation how{Derivation::Inverse, rule.lastOfRun, rule.rebuilds};
    how.firstOfRun = rule.firstOfRun;
    how.made = rule.made;
    p_.alternatives.push_back(how);
    return llvm::Error::success();
  }

  plan::Read readOf(ValueId v) const {
    v = rules_.baseOf(v);
    if (NodeId def = rules_.nodes.value(v).def)
      return {opOf_.lookup(def), rules_.nodes.value(v).resultIndex};
    return p_.readOf(g_, rules_.standsFor[v.index]);
  }

  // The storage of a value of the rules, which may be an input that corresponds to a value of the
  // graph.
  InPlaceStorage storageOf(ValueId v) const {
    v = rules_.baseOf(v);
    if (rules_.nodes.value(v).def)
      return {v, true, rules_.nodes.type(v).bytes(), false};
    const ValueId root = roots_[rules_.standsFor[v.index].index];
    return {root, false, g_.type(root).bytes(), !g_.value(root).def};
  }

  GraphProblem &p_;
  InverseRules &rules_;
  const Graph &g_;
  const Target &t_;
  std::vector<ValueId> roots_;
  llvm::DenseMap<NodeId, OpIndex> opOf_; // by node of the rules
};

} // namespace

llvm::Error addInverses(GraphProblem &p, const Graph &g, const Target &t, const Ways &ways) {
  return InverseOps(p, g, t).run(ways);
}

} // namespace isthmus
