#include "passes/rewrite/rematerialize.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/place.h"
#include "ir/provenance.h"
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
    for (plan::OpIndex op : s_)
      emit(p_.derivationOf(op));
    if (!isInOrder_ && g_.numReplaced() == 0) // else all nodes say so already
      for (uint32_t i = 0; i < g_.numNodes(); ++i)
        if (first_[i] && !g_.node(NodeId(i)).isStandIn())
          r_.to().editNode(first_[i]).from.sourceIndex = sourceIndex(g_, NodeId(i));
    keepLoss();
    return withRoles(r_.finish());
  }

private:
  void emit(const Derivation &d) {
    switch (d.kind) {
    case Derivation::Input:
      ISTHMUS_UNREACHABLE("a schedule runs a graph input");
    case Derivation::Node:
      return emitNode(d.node);
    case Derivation::StartOffload:
      return startOffload(d.value);
    case Derivation::WaitOffload:
      return waitOffload(d.value);
    case Derivation::StartPrefetch:
      return startPrefetch(d.value);
    case Derivation::WaitPrefetch:
      return waitPrefetch(d.value);
    case Derivation::Encode:
      return encode(d);
    case Derivation::FromEncoded:
      return fromEncoded(d);
    case Derivation::Inverse:
      return invert(d);
    }
  }

  // --- Nodes and clones

  void emitNode(NodeId id) {
    if (first_[id.index])
      return clone(id);
    first_[id.index] = isWaitForSend(g_, g_.node(id)) ? copyWait(id) : r_.copyNode(id);
    if (g_.node(id).phase == Phase::Backward)
      lastBackward_ = first_[id.index];
    isInOrder_ &= !last_ || last_ < id;
    last_ = id;
  }

  // A wait for a send holds the instance that is sent, not the newest one.
  NodeId copyWait(NodeId id) {
    const ValueId v = g_.node(id).operands[0], now = r_.map(v);
    const NodeId send = first_[g_.value(g_.node(id).operands[1]).def.index];
    r_.setMap(v, r_.to().node(send).operands[0]);
    const NodeId made = r_.copyNode(id);
    r_.setMap(v, now);
    return made;
  }

  // The loss is its first instance, not a clone that the backward pass made.
  void keepLoss() {
    NodeId def = g_.loss ? g_.value(g_.loss).def : NodeId();
    if (def && first_[def.index])
      r_.setMap(g_.loss, r_.to().node(first_[def.index]).result(g_.value(g_.loss).resultIndex));
  }

  // Roles name the first instances of their values too.
  Graph withRoles(Graph out) const {
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      OutputRole role = g_.role(i);
      const NodeId def = role.of ? g_.value(role.of).def : NodeId();
      if (!def || Graph::isReplaced(def) || !first_[def.index])
        continue;
      role.of = out.node(first_[def.index]).result(g_.value(role.of).resultIndex);
      out.setRole(i, role);
    }
    return out;
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
      // What came by a message has no boundary: it restores a value, as a boundary does. (What a copy
      // stands for is set at the end.)
      const NodeId old = g_.value(v).def;
      const bool isMessage = old && g_.node(old).is(StandIn::Transfer);
      bool isCheckpoint = def && !isMessage && !to.node(def).isStandIn() &&
                          to.node(def).phase == Phase::Forward;
      operands.push_back(isCheckpoint ? boundary(now) : now);
    }
    llvm::SmallVector<std::string, 2> names;
    for (uint32_t i = 0; i < n.numResults; ++i)
      names.push_back(r_.freshName(g_.valueName(n.result(i)).str() + ".re"));
    auto made = to.addNode(*n.op, operands, n.attrs, names, Phase::Backward);
    if (!made)
      ISTHMUS_CHECK(false, "a clone does not fit: " + llvm::toString(made.takeError()));
    Node &c = to.editNode(*made);
    c.standFor(first_[id.index]);
    c.device = n.device;
    c.loc = n.loc;
    if (!readsClone && lastBackward_)
      c.from.after.push_back(lastBackward_);
    for (uint32_t i = 0; i < n.numResults; ++i)
      r_.setMap(n.result(i), c.result(i));
  }

  // The stop_gradient through which clones read `v`, a value of the new graph.
  ValueId boundary(ValueId v) {
    ValueId &passed = boundaries_[v];
    if (!passed)
      passed =
          r_.to()
              .node(standIn(StandIn::Boundary, "stop_gradient", v, {v}, ".sg", Phase::Backward))
              .firstResult;
    return passed;
  }

  // --- Stand-ins

  // The first instance of a value of `g`.
  ValueId firstMade(ValueId v) {
    const Value &old = g_.value(v);
    return r_.to().node(first_[old.def.index]).result(old.resultIndex);
  }

  // Adds a node of `op` whose first result replaces `whole`, the first instance of a value.
  NodeId standIn(StandIn kind, llvm::StringRef op, ValueId whole, llvm::ArrayRef<ValueId> operands,
                 const char *suffix, Phase phase, const Attrs &attrs = {}) {
    Graph &to = r_.to();
    Builder b(to, phase);
    if (NodeId def = to.value(whole).def) {
      b.device = to.node(def).device;
      b.loc = to.node(def).loc;
    }
    NodeId id = b.createNode(op, operands, attrs, r_.freshName(to.valueName(whole).str() + suffix));
    to.editNode(id).standFor(whole, kind);
    return id;
  }

  struct Transfer {
    ValueId from, to, token; // of the new graph
  };

  NodeId startTransfer(llvm::StringRef op, ValueId v, ValueId from, const char *suffix,
                       const char *tokenSuffix, Phase phase, Transfer &t) {
    const ValueId whole = firstMade(v);
    const NodeId id = standIn(StandIn::Transfer, op, whole, {from}, suffix, phase);
    t = {from, r_.to().node(id).result(0), r_.to().node(id).result(1)};
    r_.to().rename(t.token, r_.freshName(r_.to().valueName(whole).str() + tokenSuffix));
    return id;
  }

  ValueId waitFor(ValueId v, const Transfer &t, const char *suffix, Phase phase) {
    const NodeId id =
        standIn(StandIn::Transfer, "wait", firstMade(v), {t.to, t.token, t.from}, suffix, phase);
    return r_.to().node(id).firstResult;
  }

  void startOffload(ValueId v) {
    startTransfer("copy_to_host", v, r_.map(v), ".host", ".sent", phaseOf(v), underWay_[v]);
  }
  void waitOffload(ValueId v) { onHost_[v] = waitFor(v, underWay_[v], ".kept", phaseOf(v)); }
  void startPrefetch(ValueId v) {
    const NodeId id = startTransfer("copy_to_device", v, onHost_[v], ".back", ".got",
                                    Phase::Backward, comingBack_[v]);
    if (lastBackward_)
      r_.to().editNode(id).from.after.push_back(lastBackward_);
  }
  void waitPrefetch(ValueId v) {
    r_.setMap(v, waitFor(v, comingBack_[v], ".again", Phase::Backward));
  }

  Phase phaseOf(ValueId v) const { return g_.node(g_.value(v).def).phase; }

  // --- Encodings

  ValueId &encoded(const Derivation &d) { return encoded_[{d.value.index, d.encoding}]; }

  void encode(const Derivation &d) {
    const NodeId id = standIn(StandIn::Encoding, d.encoding->name, firstMade(d.value),
                              {r_.map(d.value)}, ".encoded", phaseOf(d.value));
    encoded(d) = r_.to().node(id).firstResult;
  }

  // Emits the node with the encoding in place of the value. This replaces every operand that is the
  // value, but alternatives exist only for values that are one operand.
  void fromEncoded(const Derivation &d) {
    const ValueId now = r_.map(d.value);
    r_.setMap(d.value, encoded(d));
    emitNode(d.node);
    r_.setMap(d.value, now);
  }

  // --- Inverses

  // Views of the rules take no bytes, so they are emitted at their readers: views that a node reads
  // just before it, views of its result right after it.
  void invert(const Derivation &d) {
    const ValueId whole =
        first_[g_.value(d.value).def.index] ? firstMade(d.value) : firstRead(d.node);
    const Graph &rules = p_.inverses.nodes;
    rebuilt_ = d.made;
    for (uint32_t i = (d.firstOfRun ? d.firstOfRun : d.node).index; i <= d.node.index; ++i) {
      const Node &rule = rules.node(NodeId(i));
      if (rule.op->is(kView))
        continue;
      const NodeId id = ruleNode(NodeId(i), whole);
      for (uint32_t k = 0; k < rule.numResults; ++k)
        ruleMade_[rule.result(k)] = r_.to().node(id).result(k);
    }
    if (d.made)
      r_.setMap(d.value, ruleValue(d.made, whole));
  }

  // A helper node, such as the inverse of a weight, may run before the first instance of the value
  // that it helps to rebuild. It then restores the first value that it depends on or, if it depends
  // on none, any value.
  ValueId firstRead(NodeId rule) {
    const Graph &rules = p_.inverses.nodes;
    while (!rules.node(rule).operands.empty()) {
      const ValueId v = rules.node(rule).operands[0];
      if (NodeId def = rules.value(v).def) {
        rule = def;
        continue;
      }
      const ValueId read = p_.inverses.standsFor[v.index];
      return g_.value(read).def ? firstMade(read) : r_.map(read);
    }
    return g_.inputs().empty() ? r_.to().node(NodeId(0)).firstResult : r_.map(g_.inputs()[0].value);
  }

  NodeId ruleNode(NodeId id, ValueId whole) {
    const Node &rule = p_.inverses.nodes.node(id);
    ValueList operands;
    for (ValueId v : rule.operands)
      operands.push_back(ruleValue(v, whole));
    const StandIn kind = rule.firstResult == rebuilt_ ? StandIn::Inverse : StandIn::Helper;
    const NodeId made =
        standIn(kind, rule.op->name, whole, operands, ".inv", Phase::Backward, rule.attrs);
    if (lastBackward_ && llvm::none_of(operands, [&](ValueId v) { return isMadeAgain(v); }))
      r_.to().editNode(made).from.after.push_back(lastBackward_);
    return made;
  }

  bool isMadeAgain(ValueId v) {
    const NodeId def = r_.to().value(v).def;
    return def && r_.to().node(def).isStandIn();
  }

  // The value of the new graph that corresponds to a value of the rules.
  ValueId ruleValue(ValueId v, ValueId whole) {
    const NodeId def = p_.inverses.nodes.value(v).def;
    if (!def)
      return r_.map(p_.inverses.standsFor[v.index]);
    if (!p_.inverses.nodes.node(def).op->is(kView))
      return ruleMade_.lookup(v);
    return r_.to().node(ruleNode(def, whole)).result(0);
  }

  const Graph &g_;
  const GraphProblem &p_;
  const plan::Schedule &s_;
  Rebuilder r_;
  std::vector<NodeId> first_; // by old id: the node of the first step
  llvm::DenseMap<ValueId, ValueId> boundaries_;
  llvm::DenseMap<ValueId, Transfer> underWay_, comingBack_; // by value of `g`: the newest transfer
  llvm::DenseMap<ValueId, ValueId> onHost_;
  llvm::DenseMap<ValueId, ValueId> ruleMade_; // by value of the rules: the newest instance
  ValueId rebuilt_; // of the rules: the result of the inverse that is emitted; null for a helper
  llvm::DenseMap<std::pair<uint32_t, const OpDef *>, ValueId> encoded_;
  NodeId lastBackward_, last_; // of the new graph; of `g`
  bool isInOrder_ = true;
};

} // namespace

Graph rematerialize(const Graph &g, const GraphProblem &p, const plan::Schedule &s) {
  return Rewrite(g, p, s).run();
}

} // namespace isthmus
