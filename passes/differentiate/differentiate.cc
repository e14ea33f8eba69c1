#include "passes/differentiate/differentiate.h"

#include "ir/check.h"
#include "ir/provenance.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

class Differentiator {
public:
  explicit Differentiator(Graph &g) : g_(g), b_(g, Phase::Backward) {}

  using Map = llvm::DenseMap<ValueId, ValueId>;
  using Set = llvm::DenseSet<ValueId>;

  // Values that depend on `from` through those of nodes [first, last) that pass gradients.
  Set dependents(llvm::ArrayRef<ValueId> from, uint32_t first, uint32_t last) {
    Set depends(from.begin(), from.end());
    for (uint32_t i = first; i < last; ++i) {
      const Node &n = g_.node(NodeId(i));
      if (!passesGradient(n) ||
          llvm::none_of(n.operands, [&](ValueId v) { return depends.count(v); }))
        continue;
      for (uint32_t r = 0; r < n.numResults; ++r)
        if (isFloat(g_.type(n.result(r)).dtype))
          depends.insert(n.result(r));
    }
    return depends;
  }

  // Visits nodes [first, last) in reverse; `grads` holds the gradient of each value reached so far.
  void backpropagate(uint32_t first, uint32_t last, const Set &wanted, Map &grads) {
    for (uint32_t i = last; i-- > first;) {
      NodeId id(i);
      const Node &n = g_.node(id);
      bool flows = false, needed = false;
      llvm::SmallVector<ValueId, 2> resultGrads(n.numResults);
      for (uint32_t r = 0; r < n.numResults; ++r) {
        auto it = grads.find(n.result(r));
        if (it != grads.end() && wanted.count(n.result(r))) {
          resultGrads[r] = it->second;
          flows = true;
        }
      }
      llvm::SmallVector<bool, 4> want;
      for (ValueId v : n.operands) {
        want.push_back(wanted.count(v));
        needed |= want.back();
      }
      if (flows && needed && passesGradient(n))
        visit(id, resultGrads, want, grads);
    }
  }

  // The gradient with which all begins: `seed`, or ones.
  void begin(Map &grads, ValueId y, ValueId seed) {
    standWith(g_.value(y).def);
    b_.prefix = "d." + g_.valueName(y).str() + ".";
    accumulate(grads, y, seed ? seed : b_.full(g_.type(y), 1));
  }

  void accumulate(Map &grads, ValueId of, ValueId g) {
    ISTHMUS_CHECK(g_.type(g) == g_.type(of), "gradient of '%" + g_.valueName(of).str() +
                                                 "' has type " + g_.type(g).str() +
                                                 " in place of " + g_.type(of).str());
    auto [it, isFirst] = grads.try_emplace(of, g);
    if (!isFirst)
      it->second = sum(it->second, g);
  }

  ValueId sum(ValueId a, ValueId b) {
    for (auto [one, other] : {std::pair(b, a), {a, b}}) {
      NodeId def = g_.value(one).def;
      if (def && g_.value(one).resultIndex == 0 && g_.node(def).op->sumWith)
        return g_.node(def).op->sumWith(b_, def, other);
    }
    return b_.add(a, b);
  }

  std::vector<Diag> missing; // errors for ops without a gradient

private:
  static bool passesGradient(const Node &n) {
    return n.op->differentiable != Differentiable::ZeroGradient || n.is(StandIn::Boundary);
  }

  // Nodes of the gradient of `id` stand where it does, if it is a node. They are of its own forward
  // node, or of that of which it is: so is a gradient of a gradient, and a sum of gradients is of
  // the node that makes the last one of them.
  void standWith(NodeId id) {
    b_.loc = id ? g_.node(id).loc : Loc();
    b_.device = id ? g_.node(id).device : "";
    b_.gradientOf = id ? forwardNodeOf(g_, id) : NodeId();
  }

  void visit(NodeId id, llvm::ArrayRef<ValueId> resultGrads, llvm::ArrayRef<bool> want,
             Map &grads) {
    const Node &n = g_.node(id);
    standWith(id);
    b_.prefix = "d." + g_.nodeName(id).str() + ".";
    if (n.op->vjp) {
      VjpContext context(b_, id, resultGrads, want);
      ValueList out = n.op->vjp(context);
      for (size_t i = 0; i < out.size(); ++i)
        if (out[i] && want[i])
          accumulate(grads, n.operands[i], out[i]);
    } else if (n.op->expand) {
      visitExpanded(id, resultGrads, want, grads);
    } else {
      Diag d;
      d.where = g_.whereIs(id);
      d.message = "'" + n.op->name + "' has no gradient, and one is needed through '%" +
                  g_.nodeName(id).str() + "', unless a stop_gradient stands before it";
      d.remedies.push_back({"wrt", "", "choose other values"});
      missing.push_back(std::move(d));
    }
  }

  // Expands the op into simpler ones and backpropagates through those.
  void visitExpanded(NodeId id, llvm::ArrayRef<ValueId> resultGrads, llvm::ArrayRef<bool> want,
                     Map &grads) {
    const Node &n = g_.node(id);
    uint32_t first = g_.numNodes();
    ExpandContext context{b_, n.attrs, ValueList(n.operands.begin(), n.operands.end())};
    ValueList results = n.op->expand(context);
    uint32_t last = g_.numNodes();

    ValueList from;
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i])
        from.push_back(n.operands[i]);
    Map inner;
    auto wanted = dependents(from, first, last);
    for (size_t r = 0; r < results.size(); ++r)
      if (resultGrads[r] && wanted.count(results[r]))
        accumulate(inner, results[r], resultGrads[r]);
    backpropagate(first, last, wanted, inner);
    Set done;
    for (ValueId v : from)
      if (auto it = inner.find(v); it != inner.end() && done.insert(v).second)
        accumulate(grads, v, it->second);
  }

  Graph &g_;
  Builder b_;
};

llvm::Error checkFloat(const Graph &g, llvm::ArrayRef<ValueId> vs, const char *what) {
  for (ValueId v : vs)
    if (const Type &type = g.type(v); !isFloat(type.dtype) || !type.isPlain())
      return makeError("{0} '%{1}' is of type {2}; gradients need floating-point values{3}", what,
                       g.valueName(v), type.str(),
                       type.memory == Memory::Host ? " in the device's memory" : "");
  return llvm::Error::success();
}

// The order of the next differentiation: 1 if no output is a gradient, 2 if there are first-order
// gradients, and so on.
unsigned nextOrder(const Graph &g) {
  unsigned order = 1;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).kind == OutputKind::Gradient)
      order = std::max(order, g.role(i).order + 1);
  return order;
}

} // namespace

llvm::Expected<ValueList> gradients(Graph &g, llvm::ArrayRef<ValueId> ys,
                                    llvm::ArrayRef<ValueId> xs, llvm::ArrayRef<ValueId> gradYs) {
  if (llvm::Error e = checkFloat(g, ys, "the value to differentiate"))
    return e;
  if (llvm::Error e = checkFloat(g, xs, "the value to differentiate by"))
    return e;

  Differentiator d(g);
  uint32_t last = g.numNodes();
  auto wanted = d.dependents(xs, 0, last);
  Differentiator::Map grads;
  for (size_t i = 0; i < ys.size(); ++i) {
    ValueId seed = i < gradYs.size() ? gradYs[i] : ValueId();
    if (seed && g.type(seed) != g.type(ys[i]))
      return makeError("the gradient given for '%{0}' is of type {1}, expected {2}",
                       g.valueName(ys[i]), g.type(seed).str(), g.type(ys[i]).str());
    if (!wanted.count(ys[i]))
      continue;
    d.begin(grads, ys[i], seed);
  }
  d.backpropagate(0, last, wanted, grads);
  if (!d.missing.empty())
    return llvm::make_error<DiagError>(std::move(d.missing), ErrorKind::Unsupported);

  ValueList out;
  for (ValueId x : xs)
    out.push_back(grads.lookup(x));
  return out;
}

void addGradientOutputs(Graph &g, llvm::ArrayRef<ValueId> xs, llvm::ArrayRef<ValueId> grads) {
  unsigned order = nextOrder(g);
  std::string prefix = order == 1 ? "grad." : "grad" + std::to_string(order) + ".";
  Builder b(g, Phase::Backward);
  llvm::DenseSet<ValueId> taken(g.outputs().begin(), g.outputs().end());
  for (size_t i = 0; i < xs.size(); ++i) {
    b.gradientOf = NodeId();
    ValueId v = grads[i] ? grads[i] : b.zeros(g.type(xs[i]));
    // An output has one name, but two inputs may share a gradient value, and a seed may itself be
    // the gradient: these are copied.
    if (!taken.insert(v).second || !g.value(v).def ||
        g.node(g.value(v).def).phase != Phase::Backward) {
      if (const NodeId def = g.value(v).def)
        b.gradientOf = forwardNodeOf(g, def);
      v = b.create("identity", {v});
      taken.insert(v);
    }
    g.rename(v, g.uniqueName(prefix + g.valueName(xs[i]).str()));
    g.addOutput(v, {OutputKind::Gradient, xs[i], order});
  }
}

} // namespace isthmus
