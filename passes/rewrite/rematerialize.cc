#include "passes/rewrite/rematerialize.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

class Rewrite {
public:
  Rewrite(const Graph &g, const GraphProblem &p, const plan::Schedule &s)
      : g_(g), p_(p), s_(s), r_(g), first_(g.numNodes()) {}

  Graph run() {
    r_.copyInputs();
    bool inOrder = true;
    NodeId last;
    for (plan::OpIndex op : s_) {
      NodeId id = p_.nodeOf(op);
      if (first_[id.index]) {
        clone(id);
        continue;
      }
      first_[id.index] = r_.copyNode(id);
      if (g_.node(id).phase == Phase::Backward)
        lastBackward_ = first_[id.index];
      inOrder &= !last || last < id;
      last = id;
    }
    if (!inOrder)
      for (uint32_t i = 0; i < g_.numNodes(); ++i)
        if (first_[i])
          r_.to().editNode(first_[i]).from.sourceIndex = i;
    keepLoss();
    return r_.finish();
  }

private:
  // The loss is what is differentiated, not a copy of it that the backward pass made for itself.
  void keepLoss() {
    NodeId def = g_.loss ? g_.value(g_.loss).def : NodeId();
    if (def && first_[def.index])
      r_.setMap(g_.loss, r_.to().node(first_[def.index]).result(g_.value(g_.loss).resultIndex));
  }

  void clone(NodeId id) {
    const Node &n = g_.node(id);
    Graph &to = r_.to();
    ValueList operands;
    bool readsClone = false;
    for (ValueId v : n.operands) {
      ValueId now = r_.map(v);
      NodeId def = to.value(now).def;
      readsClone |= def && to.node(def).isClone();
      bool isCheckpoint = def && !to.node(def).isClone() && to.node(def).phase == Phase::Forward;
      operands.push_back(isCheckpoint ? boundary(now) : now);
    }
    llvm::SmallVector<std::string, 2> names;
    for (uint32_t i = 0; i < n.numResults; ++i)
      names.push_back(r_.freshName(g_.valueName(n.result(i)).str() + ".re"));
    auto made = to.addNode(*n.op, operands, n.attrs, names, Phase::Backward);
    if (!made)
      ISTHMUS_CHECK(false, "a clone does not fit: " + llvm::toString(made.takeError()));
    Node &c = to.editNode(*made);
    c.from.origin = first_[id.index];
    c.device = n.device;
    c.loc = n.loc;
    if (!readsClone && lastBackward_)
      c.from.after.push_back(lastBackward_);
    for (uint32_t i = 0; i < n.numResults; ++i)
      r_.setMap(n.result(i), c.result(i));
  }

  // The stop_gradient through which clones read `v`, a value of the new graph.
  ValueId boundary(ValueId v) {
    auto [it, isNew] = boundaries_.try_emplace(v);
    if (isNew) {
      Graph &to = r_.to();
      Builder b(to, Phase::Backward);
      const Node &def = to.node(to.value(v).def);
      b.device = def.device;
      b.loc = def.loc;
      NodeId id =
          b.createNode("stop_gradient", {v}, {}, r_.freshName(to.valueName(v).str() + ".sg"));
      to.editNode(id).from.restores = v;
      it->second = to.node(id).firstResult;
    }
    return it->second;
  }

  const Graph &g_;
  const GraphProblem &p_;
  const plan::Schedule &s_;
  Rebuilder r_;
  std::vector<NodeId> first_; // by old id: the node made by the first run
  llvm::DenseMap<ValueId, ValueId> boundaries_;
  NodeId lastBackward_;
};

} // namespace

Graph rematerialize(const Graph &g, const GraphProblem &p, const plan::Schedule &s) {
  return Rewrite(g, p, s).run();
}

} // namespace isthmus
