#include "passes/rewrite/inverses.h"

#include "ir/storage.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

using plan::Op;
using plan::OpIndex;

class InverseOps {
public:
  InverseOps(GraphProblem &p, const Graph &g, const Target &t)
      : p_(p), rules_(p.inverses), g_(g), t_(t), roots_(storageRoots(g)) {}

  llvm::Error run(llvm::ArrayRef<std::string> never) {
    std::vector<bool> stays(g_.numValues(), false);
    for (ValueId v : g_.outputs())
      stays[roots_[v.index].index] = true;
    for (const std::string &name : never)
      if (ValueId v = g_.find(name))
        stays[roots_[v.index].index] = true;
    keepComparedBits(stays);
    InverseRuleOptions o;
    o.isWanted = [&](ValueId root) {
      const NodeId def = g_.value(root).def;
      return def && g_.node(def).phase == Phase::Forward && !stays[root.index] &&
             !g_.node(def).isClone() && !g_.node(def).isStandIn();
    };
    rules_ = inverseRules(g_, o);
    for (const InverseRule &rule : rules_.rules)
      if (llvm::Error e = addRule(rule))
        return locate(std::move(e), g_.whereIs(rule.reader));
    return llvm::Error::success();
  }

private:
  // An inverse rounds, and a gradient may jump there: relu_grad takes a zero that came back as
  // 1e-17 for positive, and max_grad finds no element that equals the largest one.
  void keepComparedBits(std::vector<bool> &stays) const {
    std::vector<bool> isCompared(g_.numValues(), false); // by root; or what that is made of
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      const Node &n = g_.node(NodeId(i));
      bool isHere = n.op->is(kComparesOperands);
      for (uint32_t r = 0; r < n.numResults; ++r) {
        const ValueId root = roots_[n.result(r).index];
        isHere |= isCompared[root.index];
        if (n.op->is(kTellsResultBits) || isCompared[root.index])
          stays[root.index] = true;
      }
      for (ValueId v : n.operands)
        if (isHere)
          isCompared[roots_[v.index].index] = true;
    }
  }

  llvm::Error addRule(const InverseRule &rule) {
    const NodeId last = rules_.nodes.value(rules_.baseOf(rule.made)).def;
    if (!last) // its bytes are those of the result
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
    Op op;
    op.name = (g_.valueName(rule.rebuilds) + ".from." + g_.nodeName(rule.reader) +
               (isLast ? "" : ".helper"))
                  .str();
    op.phase = plan::OpPhase::Backward;
    op.isAlternative = true;
    op.cost = 1e6 * t_.seconds(call);
    op.workspace = *workspace;
    for (ValueId v : n.operands)
      op.inputs.push_back(readOf(v));
    for (const Type &type : call.results)
      op.outputBytes.push_back(type.bytes());
    setDonations(n, op);
    if (isLast) {
      const Value &root = g_.value(rule.rebuilds);
      op.of = p_.opOf(root.def);
      op.ofOutput = g_.node(root.def).numResults == 1 ? Op::kAllOutputs : root.resultIndex;
    }
    opOf_[id] = OpIndex(p_.problem.ops.size());
    p_.problem.ops.push_back(std::move(op));
    Derivation how{Derivation::Inverse, id, rule.rebuilds};
    how.made = isLast ? rule.made : ValueId();
    p_.alternatives.push_back(how);
    return llvm::Error::success();
  }

  plan::Read readOf(ValueId v) const {
    v = rules_.baseOf(v);
    if (NodeId def = rules_.nodes.value(v).def)
      return {opOf_.lookup(def), rules_.nodes.value(v).resultIndex};
    return p_.readOf(g_, rules_.standsFor[v.index]);
  }

  // By the rule of inPlacePairs, over the storages of the graph and of the rules.
  void setDonations(const Node &n, Op &op) const {
    struct Root {
      ValueId ofRules, ofGraph; // one of them
      bool operator==(const Root &) const = default;
    };
    auto rootOf = [&](ValueId v) {
      v = rules_.baseOf(v);
      return rules_.nodes.value(v).def ? Root{v, {}}
                                       : Root{{}, roots_[rules_.standsFor[v.index].index]};
    };
    for (const InPlace &pair : n.op->inPlace) {
      if (pair.operand >= n.operands.size())
        continue;
      const Root root = rootOf(n.operands[pair.operand]);
      if (root.ofGraph && !g_.value(root.ofGraph).def)
        continue;
      const Type &from = root.ofGraph ? g_.type(root.ofGraph) : rules_.nodes.type(root.ofRules);
      const auto sharing = llvm::count_if(n.operands, [&](ValueId v) { return rootOf(v) == root; });
      if (from.bytes() == rules_.nodes.type(n.result(pair.result)).bytes() &&
          (sharing == 1 || n.op->is(kElementwise)))
        op.donations.push_back({pair.result, pair.operand});
    }
  }

  GraphProblem &p_;
  InverseRules &rules_;
  const Graph &g_;
  const Target &t_;
  std::vector<ValueId> roots_;
  llvm::DenseMap<NodeId, OpIndex> opOf_; // by node of the rules
};

} // namespace

llvm::Error addInverses(GraphProblem &p, const Graph &g, const Target &t,
                        llvm::ArrayRef<std::string> never) {
  return InverseOps(p, g, t).run(never);
}

} // namespace isthmus
