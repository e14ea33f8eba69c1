#include "ir/inverse_rules.h"

#include "ir/builder.h"
#include "ir/fixed_point.h"
#include "ir/inverse_formulas.h"
#include "ir/joined_parts.h"
#include "ir/storage.h"
#include "ir/value_facts.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace isthmus {
namespace {

class RuleWriter {
public:
  RuleWriter(const Graph &g, const InverseRuleOptions &o)
      : b_(out_.nodes, Phase::Backward), g_(g), o_(o), roots_(storageRoots(g)),
        facts_(g, /*areWeightsFixed=*/o.ofAll) {}

  InverseRules run() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      addFormula(NodeId(i));
      if (!mayBeUndone(n))
        continue;
      for (uint32_t k = 0; k < n.operands.size(); ++k)
        if (isWorthRebuilding(n, k) && holds(n, k))
          addRule(NodeId(i), k);
      if (o_.iterations > 0)
        for (const FixedPoint &f : fixedPointsOf(g_, NodeId(i)))
          if (isWorthRebuilding(n, f.operand) && !readsElsewhere(f))
            addRun(f);
    }
    for (const Whole &w : wholesOf(g_, facts_, o_.ofAll ? kMostParts : kMostPartsOfPlans))
      addJoins(w);
    return std::move(out_);
  }

private:
  // As the steps of a sequence are better sliced one by one, plans join no more than the gates of
  // an LSTM.
  static constexpr size_t kMostParts = 256, kMostPartsOfPlans = 4;

  bool mayBeUndone(const Node &n) const {
    return n.op->inverse && n.phase == Phase::Forward && n.op->effect == Effect::Pure &&
           !n.isStandIn() && (o_.ofAll || !n.op->is(kView));
  }

  // An operand that appears twice cannot be rebuilt, because the rule reads all other operands.
  bool isWorthRebuilding(const Node &reader, uint32_t operand) const {
    const ValueId v = reader.operands[operand];
    return llvm::count(reader.operands, v) == 1 && isWorthRebuilding(v);
  }
  bool isWorthRebuilding(ValueId v) const {
    return g_.type(v).isPlain() && g_.type(v).bytes() > 0 && o_.isWanted(roots_[v.index]);
  }

  bool holds(const Node &n, uint32_t operand) const {
    return !n.op->inverseHolds || n.op->inverseHolds(facts_, n, operand);
  }

  // The input of the rules that corresponds to a value of the graph.
  ValueId given(ValueId v) {
    ValueId &in = given_[v];
    if (!in) {
      in = llvm::cantFail(out_.nodes.addInput(InputKind::Input, g_.valueName(v), g_.type(v)));
      out_.standsFor.resize(out_.nodes.numValues());
      out_.standsFor[in.index] = v;
    }
    return in;
  }

  // Applies the inverse of a node: returns operand `k`. `result`, if given, replaces the node's
  // first result. Null if the op has no inverse for that operand.
  ValueId undone(NodeId id, uint32_t k, ValueId result = {}) {
    const Node &n = g_.node(id);
    InverseContext c{b_, n.attrs, {}, {}, g_.type(n.operands[k])};
    for (uint32_t i = 0; i < n.operands.size(); ++i)
      c.operands.push_back(i == k ? ValueId() : given(n.operands[i]));
    for (uint32_t r = 0; r < n.numResults; ++r)
      c.results.push_back(result && r == 0 ? result : given(n.result(r)));
    return n.op->inverse(c, k);
  }

  // Rebuilds the root of a value's storage from `back`, the rebuilt value, through the inverses of
  // the views between them. Null if `back` is null or a view has no inverse.
  ValueId throughViews(ValueId v, ValueId back) {
    while (back && v != roots_[v.index]) {
      const NodeId view = g_.value(v).def;
      if (!g_.node(view).op->inverse || g_.node(view).numResults != 1 || !holds(g_.node(view), 0))
        return {};
      v = g_.node(view).operands[0];
      back = undone(view, 0, back);
    }
    return back && out_.nodes.type(back) == g_.type(v) ? back : ValueId();
  }

  void addRule(NodeId reader, uint32_t operand) {
    const uint32_t first = uint32_t(out_.nodes.numNodes());
    add(reader, g_.node(reader).operands[operand], undone(reader, operand), first);
  }

  // Adds a rule for the storage of `v`, unless `back` is null: `v` as rebuilt by the nodes from
  // `first` on.
  void add(NodeId reader, ValueId v, ValueId back, uint32_t first) {
    const ValueId made = throughViews(v, back);
    for (uint32_t i = first; i < out_.nodes.numNodes(); ++i)
      shareNode(NodeId(i));
    if (made)
      out_.rules.push_back({reader, roots_[v.index], shared(made), {}, {}});
  }

  void addFormula(NodeId last) {
    const auto formula = inverseFormulaOf(g_, last, /*areWeightsFixed=*/o_.ofAll);
    if (!formula || !isWorthRebuilding(formula->x))
      return;
    const uint32_t first = uint32_t(out_.nodes.numNodes());
    const ValueId y = given(g_.node(last).firstResult);
    add(last, formula->x, formula->rebuild(b_, y), first);
  }

  // --- Parts

  // Rebuilds a value from parts that cover it and, for the inverse of a whole graph, each part from
  // others. Large parts are few; small ones are known where large ones are not, as in an
  // autoregressive flow; and parts that are the same rebuild one another. So there are up to three
  // rules for each.
  void addJoins(const Whole &w) {
    std::vector<const Part *> parts;
    for (const Part &p : w.parts)
      parts.push_back(&p);
    addJoins(w, w.value, allPlaces(g_.type(w.value)), parts);
    if (!o_.ofAll)
      return;
    for (const Part &p : w.parts) {
      std::vector<const Part *> others = parts;
      others.erase(llvm::find(others, &p));
      addJoins(w, p.value, p.places, others);
    }
  }

  void addJoins(const Whole &w, ValueId v, const Places &places, std::vector<const Part *> parts) {
    if (!isWorthRebuilding(v))
      return;
    auto bytesOf = [&](const Part *p) { return g_.type(p->value).bytes(); };
    llvm::SmallVector<std::vector<const Part *>, 3> done;
    auto addOne = [&] {
      const uint32_t first = uint32_t(out_.nodes.numNodes());
      const JoinedParts joined = joinedParts(b_, g_.type(w.value), places, g_.type(v).dims, parts,
                                             [&](ValueId part) { return given(part); });
      if (!joined.value || llvm::is_contained(done, joined.used) || isOneNode(joined.used, v))
        return;
      done.push_back(joined.used);
      add(g_.value(joined.used[0]->value).def, v, joined.value, first);
    };
    std::stable_sort(parts.begin(), parts.end(),
                     [&](const Part *a, const Part *b) { return bytesOf(a) > bytesOf(b); });
    addOne();
    std::reverse(parts.begin(), parts.end());
    const int64_t own = g_.type(v).bytes();
    llvm::erase_if(parts, [&](const Part *p) { return bytesOf(p) > own; });
    addOne();
    llvm::erase_if(parts, [&](const Part *p) { return bytesOf(p) == own; });
    addOne();
  }

  // Whether the parts are results of one node, whose own rule rebuilds its operand.
  bool isOneNode(llvm::ArrayRef<const Part *> parts, ValueId operand) const {
    const NodeId def = g_.value(parts[0]->value).def;
    return g_.node(def).operands[0] == operand &&
           llvm::all_of(parts, [&](const Part *p) { return g_.value(p->value).def == def; });
  }

  // --- Fixed points

  // Whether f also reads the storage of x through another view, so that the rule would need the
  // storage that it rebuilds.
  bool readsElsewhere(const FixedPoint &f) const {
    const ValueId x = g_.node(f.sum).operands[f.operand];
    return llvm::any_of(f.nodes, [&](NodeId id) {
      return llvm::any_of(g_.node(id).operands, [&](ValueId v) {
        return v != x && roots_[v.index] == roots_[x.index] &&
               !llvm::is_contained(f.nodes, g_.value(v).def);
      });
    });
  }

  void addRun(const FixedPoint &f) {
    const NodeId first(uint32_t(out_.nodes.numNodes()));
    const ValueId x = g_.node(f.sum).operands[f.operand];
    const ValueId made = throughViews(x, iterated(f));
    const NodeId last(uint32_t(out_.nodes.numNodes() - 1));
    if (made)
      out_.rules.push_back({f.sum, roots_[x.index], made, first, last});
  }

  // The value of x after the iterations x = y - f(x) from x = y.
  ValueId iterated(const FixedPoint &f) {
    const Node &sum = g_.node(f.sum);
    const ValueId x = sum.operands[f.operand], branch = sum.operands[1 - f.operand],
                  y = given(sum.firstResult);
    llvm::DenseMap<ValueId, ValueId> now; // by value of the graph: its value in this iteration
    now[x] = y;
    for (size_t i = 0; i < o_.iterations; ++i) {
      for (NodeId id : f.nodes)
        runOnce(id, now);
      now[x] = b_.sub(y, now[branch]);
    }
    return now[x];
  }

  void runOnce(NodeId id, llvm::DenseMap<ValueId, ValueId> &now) {
    const Node &n = g_.node(id);
    ValueList operands;
    for (ValueId v : n.operands) {
      const ValueId made = now.lookup(v);
      operands.push_back(made ? made : given(v));
    }
    const NodeId run = b_.createNode(n.op->name, operands, n.attrs);
    for (uint32_t r = 0; r < n.numResults; ++r)
      now[n.result(r)] = out_.nodes.node(run).result(r);
  }

  // --- Sharing

  // Replaces a node over weights by an equal earlier one, if there is one.
  void shareNode(NodeId id) {
    for (ValueId &v : out_.nodes.editNode(id).operands)
      v = shared(v);
    const Node &n = out_.nodes.node(id);
    if (!llvm::all_of(n.operands, [&](ValueId v) { return isWeight(v); }))
      return;
    isOfWeights_.insert(id);
    const ValueId first = n.operands.empty() ? ValueId() : n.operands[0];
    llvm::SmallVector<NodeId, 1> &others = ofWeights_[{n.op, first}];
    for (NodeId other : others)
      if (const Node &o = out_.nodes.node(other);
          o.op == n.op && o.operands == n.operands && identical(o.attrs, n.attrs)) {
        for (uint32_t r = 0; r < n.numResults; ++r)
          shared_[n.result(r)] = o.result(r);
        return;
      }
    others.push_back(id);
  }
  ValueId shared(ValueId v) const {
    auto it = shared_.find(v);
    return it == shared_.end() ? v : it->second;
  }
  bool isWeight(ValueId v) const {
    if (NodeId def = out_.nodes.value(v).def)
      return isOfWeights_.count(def) > 0;
    return facts_.isWeight(out_.standsFor[v.index]);
  }

  InverseRules out_;
  Builder b_;
  const Graph &g_;
  const InverseRuleOptions &o_;
  std::vector<ValueId> roots_;
  const ValueFacts facts_;
  llvm::DenseMap<ValueId, ValueId> given_;  // by value of the graph
  llvm::DenseMap<ValueId, ValueId> shared_; // by result of a replaced node
  llvm::DenseSet<NodeId> isOfWeights_;      // nodes that depend on weights alone
  // Those of them that were not replaced, by op and first operand.
  llvm::DenseMap<std::pair<const OpDef *, ValueId>, llvm::SmallVector<NodeId, 1>> ofWeights_;
};

} // namespace

InverseRules inverseRules(const Graph &g, const InverseRuleOptions &o) {
  return RuleWriter(g, o).run();
}

ValueId InverseRules::baseOf(ValueId v) const {
  for (NodeId def = nodes.value(v).def; def && nodes.node(def).op->is(kView);
       def = nodes.value(v).def)
    v = nodes.node(def).operands[0];
  return v;
}

std::vector<NodeId> InverseRules::nodesOf(const InverseRule &rule) const {
  llvm::DenseSet<uint32_t> seen;
  std::vector<NodeId> found;
  auto need = [&](ValueId v) {
    if (NodeId def = nodes.value(v).def; def && seen.insert(def.index).second)
      found.push_back(def);
  };
  need(rule.made);
  for (size_t i = 0; i < found.size(); ++i)
    for (ValueId v : nodes.node(found[i]).operands)
      need(v);
  llvm::sort(found); // in graph order, operands come first
  return found;
}

} // namespace isthmus
