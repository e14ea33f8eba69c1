#include "passes/invert/invert.h"

#include "ir/inverse_rules.h"
#include "ir/spelling.h"
#include "ir/storage.h"
#include "ir/value_facts.h"
#include "passes/cheapest_steps.h"
#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <cmath>
#include <limits>

namespace isthmus {
namespace {

// A step computes values of the graph from others: it runs a node, or a rule that rebuilds an
// operand.
struct Step {
  NodeId node; // of the graph; null: the step runs `rule`
  const InverseRule *rule = nullptr;
  std::vector<ValueId> reads, makes; // without duplicates
  double cost = 0;
};

// Finds the values that can be computed, each by its cheapest step. The price of a step is its cost
// plus the highest price of its operands.
class Inversion {
public:
  Inversion(const Graph &g, llvm::ArrayRef<ValueId> ys, llvm::ArrayRef<ValueId> xs,
            size_t iterations)
      : g_(g), ys_(ys.begin(), ys.end()), xs_(xs.begin(), xs.end()),
        facts_(g, /*areWeightsFixed=*/true),
        rules_(inverseRules(g, {[](ValueId) { return true; }, /*ofAll=*/true, iterations})) {}

  llvm::Expected<Graph> run() {
    findUnknown();
    listSteps();
    search();
    for (ValueId x : xs_)
      if (!isKnown(x))
        return notFound(x);
    return build();
  }

private:
  // --- Given and unknown values

  // Marks as unknown `xs` and the values that they depend on, up to `ys`, parameters and constants.
  void findUnknown() {
    isUnknown_.assign(g_.numValues(), false);
    std::vector<ValueId> todo(xs_.begin(), xs_.end());
    for (ValueId v : todo)
      isUnknown_[v.index] = true;
    for (size_t i = 0; i < todo.size(); ++i)
      if (NodeId def = g_.value(todo[i]).def)
        for (ValueId v : g_.node(def).operands) {
          const Input *input = g_.inputOf(v);
          const bool isGiven = input && input->kind != InputKind::Input;
          if (!isGiven && !isUnknown_[v.index] && !llvm::is_contained(ys_, v)) {
            isUnknown_[v.index] = true;
            todo.push_back(v);
          }
        }
  }

  bool isGiven(ValueId v) const {
    return llvm::is_contained(ys_, v) || (!g_.value(v).def && !isUnknown_[v.index]);
  }

  // --- Steps

  void listSteps() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase != Phase::Forward || n.op->effect == Effect::Ordered)
        continue;
      Step s;
      s.node = NodeId(i);
      for (ValueId v : n.operands)
        if (!llvm::is_contained(s.reads, v))
          s.reads.push_back(v);
      for (uint32_t r = 0; r < n.numResults; ++r)
        s.makes.push_back(n.result(r));
      s.cost = priceOf(g_.call(NodeId(i)));
      steps_.push_back(std::move(s));
    }
    for (const InverseRule &rule : rules_.rules) {
      Step s;
      s.rule = &rule;
      s.makes = {rule.rebuilds};
      for (NodeId id : rules_.nodesOf(rule)) {
        s.cost += priceOf(rules_.nodes.call(id));
        for (ValueId v : rules_.nodes.node(id).operands)
          addRead(s, v);
      }
      addRead(s, rule.made);
      steps_.push_back(std::move(s));
    }
  }

  void addRead(Step &s, ValueId ofRules) const {
    if (rules_.nodes.value(ofRules).def)
      return;
    const ValueId v = rules_.standsFor[ofRules.index];
    if (!llvm::is_contained(s.reads, v))
      s.reads.push_back(v);
  }

  static double priceOf(const OpCall &call) {
    const Cost c = costOf(call);
    return 1 + c.flops + c.bytes;
  }

  // --- The search

  void search() {
    for (uint32_t i = 0; i < g_.numValues(); ++i)
      cheapest_.addThing(isGiven(ValueId(i)) ? 0 : std::numeric_limits<double>::infinity());
    auto things = [](llvm::ArrayRef<ValueId> values) {
      std::vector<uint32_t> out;
      for (ValueId v : values)
        out.push_back(v.index);
      return out;
    };
    for (const Step &s : steps_)
      cheapest_.addStep(s.cost, things(s.reads), things(s.makes));
    cheapest_.solve(CheapestSteps::Reads::Most);
  }

  bool isKnown(ValueId v) const { return std::isfinite(cheapest_.price(v.index)); }

  // --- Errors

  // A node whose inverse fails by the values of its other operands, all of which are known.
  std::string unmetNeed() const {
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      const char *need = n.phase == Phase::Forward ? needOf(n.op->name) : nullptr;
      for (uint32_t k = 0; need && k < n.operands.size(); ++k) {
        const bool knowsOthers =
            llvm::all_of(llvm::seq<uint32_t>(0, n.operands.size()),
                         [&](uint32_t o) { return o == k || isKnown(n.operands[o]); });
        if (knowsOthers && !isKnown(n.operands[k]) && !n.op->inverseHolds(facts_, n, k))
          return "; '" + valueText(g_.nodeName(NodeId(i))) + "' (" + n.op->name + ") " + need;
      }
    }
    return "";
  }

  // Of rows with inverses that ask for more than known operands: what, and what to do.
  static const char *needOf(llvm::StringRef op) {
    if (op == "mul")
      return "has an inverse only by a factor without zeros: what a mask multiplies by zero is "
             "lost. Divide the tensor by a split or by slices, x[:, :k] and x[:, k:], in place of "
             "masks";
    if (op == "prelu")
      return "has an inverse only with slopes that are known to be above zero: with others, two "
             "operands have one result";
    return nullptr;
  }

  // Names the nodes whose results are all known but not all of their operands: no rule inverts
  // them.
  llvm::Error notFound(ValueId x) const {
    constexpr size_t kMost = 4;
    std::string why;
    size_t count = 0;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase != Phase::Forward)
        continue;
      bool isMade = true, lacks = false;
      for (uint32_t r = 0; r < n.numResults; ++r)
        isMade &= isKnown(n.result(r));
      for (ValueId v : n.operands)
        lacks |= !isKnown(v);
      if (isMade && lacks && ++count <= kMost)
        why += (count > 1 ? ", '" : " '") + valueText(g_.nodeName(NodeId(i))) + "' (" + n.op->name +
               ")";
    }
    std::string names;
    for (ValueId y : ys_)
      names += (names.empty() ? "'" : ", '") + valueText(g_.valueName(y)) + "'";
    if (count == 0)
      return makeError(ErrorKind::Unsupported,
                       "'{0}' cannot be computed from {1}: no result that depends on it is known; "
                       "give all results that the graph computes from it",
                       valueText(g_.valueName(x)), names);
    if (count > kMost)
      why += " and " + std::to_string(count - kMost) + " others";
    return makeError(ErrorKind::Unsupported,
                     "'{0}' cannot be computed from {1}: no rule inverts{2} with the values that "
                     "are known there{3}",
                     valueText(g_.valueName(x)), names, why, unmetNeed());
  }

  // --- The graph

  // The steps needed for `xs`, in topological order.
  std::vector<size_t> neededSteps() const {
    struct Frame {
      size_t step, next = 0;
    };
    std::vector<size_t> order;
    std::vector<char> isListed(steps_.size(), 0);
    std::vector<Frame> stack;
    auto need = [&](ValueId v) {
      const uint32_t step = cheapest_.stepTo(v.index);
      if (step != CheapestSteps::kNone && !isListed[step]) {
        isListed[step] = 1;
        stack.push_back({step});
      }
    };
    for (ValueId x : xs_) {
      need(x);
      while (!stack.empty()) {
        Frame &f = stack.back();
        if (f.next < steps_[f.step].reads.size()) {
          need(steps_[f.step].reads[f.next++]);
          continue;
        }
        order.push_back(f.step);
        stack.pop_back();
      }
    }
    return order;
  }

  llvm::Expected<Graph> build() {
    const std::vector<size_t> order = neededSteps();
    std::vector<bool> isRead(g_.numValues(), false);
    for (size_t s : order)
      for (ValueId v : steps_[s].reads)
        isRead[v.index] = true;
    Rebuilder r(g_);
    for (ValueId y : ys_)
      if (g_.value(y).def) {
        auto in = r.to().addInput(InputKind::Input, g_.valueName(y), g_.type(y));
        if (!in)
          return in.takeError();
        r.setMap(y, *in);
      }
    for (const Input &input : g_.inputs())
      if (isGiven(input.value) &&
          (isRead[input.value.index] || llvm::is_contained(ys_, input.value)))
        r.copyInput(input, g_.type(input.value), input.init);
    for (size_t s : order)
      run(steps_[s], r);
    std::vector<Rebuilder::OldOutput> outputs;
    for (ValueId x : xs_)
      outputs.push_back({x, {}});
    Graph out = r.finish(outputs);
    out.name = g_.name + ".inverse";
    out.loss = {};
    return out;
  }

  // Emits a step. Values that another step makes keep their mapping.
  void run(const Step &s, Rebuilder &r) {
    llvm::SmallVector<std::pair<ValueId, ValueId>, 4> stays;
    const size_t me = size_t(&s - steps_.data());
    for (ValueId v : s.makes)
      if (cheapest_.stepTo(v.index) != me && r.map(v))
        stays.push_back({v, r.map(v)});
    if (s.node)
      r.copyNode(s.node);
    else
      r.setMap(s.rule->rebuilds, rebuild(*s.rule, r));
    for (auto [v, now] : stays)
      r.setMap(v, now);
  }

  void nameAs(ValueId old, ValueId now, Rebuilder &r) const {
    const llvm::StringRef name = g_.valueName(old);
    if (r.to().value(now).def && !r.to().find(name))
      r.to().rename(now, name);
  }

  ValueId rebuild(const InverseRule &rule, Rebuilder &r) {
    auto now = [&](ValueId v) {
      return rules_.nodes.value(v).def ? made_.lookup(v) : r.map(rules_.standsFor[v.index]);
    };
    for (NodeId id : rules_.nodesOf(rule)) {
      const Node &n = rules_.nodes.node(id);
      if (made_.count(n.firstResult)) // shared
        continue;
      llvm::SmallVector<ValueId, 4> operands;
      for (ValueId v : n.operands)
        operands.push_back(now(v));
      llvm::SmallVector<std::string, 2> names;
      for (uint32_t k = 0; k < n.numResults; ++k)
        names.push_back(r.freshName(g_.valueName(rule.rebuilds).str() + ".inv"));
      const NodeId to =
          llvm::cantFail(r.to().addNode(*n.op, operands, n.attrs, names, Phase::Forward));
      for (uint32_t k = 0; k < n.numResults; ++k)
        made_[n.result(k)] = r.to().node(to).result(k);
    }
    const ValueId made = now(rule.made);
    nameAs(rule.rebuilds, made, r);
    return made;
  }

  const Graph &g_;
  const std::vector<ValueId> ys_, xs_;
  const ValueFacts facts_;
  const InverseRules rules_;
  std::vector<Step> steps_;
  CheapestSteps cheapest_; // its things are values, by index
  std::vector<bool> isUnknown_;
  llvm::DenseMap<ValueId, ValueId> made_; // by value of the rules
};

} // namespace

llvm::Expected<Graph> inverseOf(const Graph &g, llvm::ArrayRef<ValueId> ys,
                                llvm::ArrayRef<ValueId> xs, size_t iterations) {
  return Inversion(g, ys, xs, iterations).run();
}

} // namespace isthmus
