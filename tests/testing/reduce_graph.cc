#include "tests/testing/reduce_graph.h"

#include "passes/rebuild.h"
#include "tools/random/draw.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <map>

namespace isthmus {
namespace {

// The changes of a graph in one step.
struct Change {
  std::vector<bool> cut;                       // by node: its results become inputs
  std::map<ValueId, ValueId> instead;          // an earlier value that replaces a value
  std::optional<std::vector<ValueId>> outputs; // replace the graph's outputs
  std::optional<ValueId> loss;                 // replaces the graph's loss
};

// Makes an initializer whose values suit all readers of `v`.
Initializer initializerFor(const Graph &g, ValueId v, const Uses &uses) {
  double low = -1e30, high = 1e30;
  int64_t bound = 4;
  for (NodeId id : uses.of(v)) {
    const Node &n = g.node(id);
    low = std::max(low, n.op->low);
    high = std::min(high, n.op->high);
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (n.operands[i] == v && n.op->indexBound)
        bound = std::min(bound, n.op->indexBound(g.call(id), i).value_or(bound));
  }
  if (low > high || low == -1e30)
    low = -1, high = 1;
  Initializer init;
  if (isFloat(g.type(v).dtype)) {
    init.kind = Initializer::Kind::Uniform;
    init.args = {{"low", low}, {"high", high}};
  } else {
    init.kind = Initializer::Kind::Data;
    init.data = draw(g.type(v), v.index, {.bound = bound});
  }
  return init;
}

class Reducer {
public:
  Reducer(Graph g, const std::function<bool(const Graph &)> &fails)
      : g_(std::move(g)), fails_(fails) {}

  Graph run() {
    attempt({}); // removes dead nodes
    bool any = true;
    while (any) {
      any = fewerOutputs();
      any |= cutGroups();
      any |= bypass();
      any |= expose();
    }
    return std::move(g_);
  }

private:
  // Applies a change, and keeps the nodes and inputs that the outputs and the loss need.
  std::optional<Graph> apply(const Change &c) const {
    auto now = [&](ValueId v) {
      while (true) {
        auto it = c.instead.find(v);
        if (it == c.instead.end())
          return v;
        v = it->second;
      }
    };
    auto isCut = [&](NodeId n) { return n.index < c.cut.size() && c.cut[n.index]; };
    std::vector<ValueId> outputs = c.outputs.value_or(std::vector<ValueId>(g_.outputs()));
    ValueId loss = c.loss.value_or(g_.loss);
    std::vector<bool> live(g_.numValues()); // by value, after replacement
    for (ValueId &v : outputs)
      live[(v = now(v)).index] = true;
    if (loss)
      live[(loss = now(loss)).index] = true;
    std::vector<bool> liveNode(g_.numNodes());
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      const Node &n = g_.node(NodeId(i));
      for (uint32_t r = 0; r < n.numResults; ++r)
        liveNode[i] = liveNode[i] || live[n.result(r).index];
      if (liveNode[i] && !isCut(NodeId(i)))
        for (ValueId v : n.operands)
          live[now(v).index] = true;
    }

    Rebuilder r(g_);
    const Uses uses(g_);
    for (const Input &in : g_.inputs())
      if (live[in.value.index])
        r.copyInput(in, g_.type(in.value), in.init);
    for (uint32_t i = 0; i < g_.numNodes(); ++i) { // inputs come before all nodes
      const Node &n = g_.node(NodeId(i));
      for (uint32_t k = 0; isCut(NodeId(i)) && k < n.numResults; ++k)
        if (ValueId v = n.result(k); live[v.index])
          r.setMap(v, llvm::cantFail(r.to().addInput(InputKind::Input, g_.valueName(v), g_.type(v),
                                                     initializerFor(g_, v, uses))));
    }
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      if (!liveNode[i] || isCut(NodeId(i)))
        continue;
      for (ValueId v : g_.node(NodeId(i)).operands)
        if (ValueId other = now(v); other != v)
          r.setMap(v, r.map(other));
      r.copyNode(NodeId(i));
    }
    // Each output is listed once. A graph has at least one output, and keeps a loss if it had one.
    llvm::DenseSet<ValueId> seen;
    llvm::erase_if(outputs, [&](ValueId v) { return !seen.insert(v).second; });
    if (outputs.empty())
      return std::nullopt;
    if (loss && !r.map(loss))
      return std::nullopt;
    std::vector<Rebuilder::OldOutput> old;
    for (ValueId v : outputs) {
      const auto *at = llvm::find(g_.outputs(), v);
      old.push_back(
          {v, at == g_.outputs().end() ? OutputRole() : g_.role(at - g_.outputs().begin())});
    }
    Graph out = r.finish(old);
    out.loss = r.map(loss);
    return out;
  }

  bool attempt(const Change &c, bool mustShrink = false) {
    std::optional<Graph> smaller = apply(c);
    if (!smaller || (mustShrink && smaller->numNodes() >= g_.numNodes()) || !fails_(*smaller))
      return false;
    g_ = std::move(*smaller);
    return true;
  }

  // Removes outputs, and moves outputs and the loss to their operands.
  bool fewerOutputs() {
    bool any = false;
    for (size_t i = g_.outputs().size(); i-- > 0;) {
      std::vector<ValueId> rest(g_.outputs());
      rest.erase(rest.begin() + i);
      if (!rest.empty())
        any |= attempt({.outputs = rest});
    }
    for (size_t i = 0; g_.loss && i < g_.outputs().size(); ++i)
      if (ValueId v = g_.outputs()[i]; isFloat(g_.type(v).dtype))
        any |= attempt({.loss = v}, /*mustShrink=*/true);
    for (bool moved = true; moved; any |= moved) {
      moved = false;
      for (size_t i = 0; i < g_.outputs().size() && !moved; ++i)
        for (ValueId operand : operandsOf(g_.outputs()[i])) {
          std::vector<ValueId> other(g_.outputs());
          other[i] = operand;
          bool isLoss = g_.loss == g_.outputs()[i];
          if (isLoss && !isFloat(g_.type(operand).dtype))
            continue;
          Change c{.outputs = other};
          if (isLoss)
            c.loss = operand;
          if ((moved = attempt(c)))
            break;
        }
    }
    return any;
  }

  // The operands that are results of nodes, as an output must be computed.
  ValueList operandsOf(ValueId v) const {
    ValueList out;
    if (NodeId n = g_.value(v).def)
      for (ValueId o : g_.node(n).operands)
        if (g_.value(o).def)
          out.push_back(o);
    return out;
  }

  bool cutGroups() {
    bool any = false;
    for (size_t size = std::max<size_t>(1, g_.numNodes() / 2);;
         size = std::max<size_t>(1, size / 2)) {
      for (size_t first = 0; first < g_.numNodes();) {
        Change c;
        c.cut.assign(g_.numNodes(), false);
        for (size_t i = first; i < std::min(first + size, g_.numNodes()); ++i)
          c.cut[i] = true;
        if (makesOutput(c) || !attempt(c))
          first += size;
        else
          any = true; // the next group is now at `first`
      }
      if (size == 1)
        return any;
    }
  }

  bool makesOutput(const Change &c) const {
    auto cutAway = [&](ValueId v) { return !g_.value(v).def || c.cut[g_.value(v).def.index]; };
    return llvm::any_of(g_.outputs(), cutAway) || (g_.loss && cutAway(g_.loss));
  }

  bool isUsed(ValueId v) const {
    return v == g_.loss || llvm::is_contained(g_.outputs(), v) || !Uses(g_).of(v).empty();
  }

  // Replaces a result by an operand.
  bool bypass() {
    bool any = false;
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      if (i >= g_.numNodes())
        continue;
      const Node n = g_.node(NodeId(i));
      for (uint32_t r = 0; r < n.numResults; ++r) {
        if (!isUsed(n.result(r)))
          continue; // the graph would not change
        bool done = false;
        for (ValueId o : n.operands) {
          bool isOutput = llvm::is_contained(g_.outputs(), n.result(r)) || g_.loss == n.result(r);
          if (g_.type(o) != g_.type(n.result(r)) || (isOutput && !g_.value(o).def))
            continue;
          Change c;
          c.instead[n.result(r)] = o;
          if ((done = attempt(c)))
            break;
        }
        any |= done;
        if (done)
          break;
      }
    }
    return any;
  }

  // Removes a node and makes its operands outputs. This helps if the failure needs two nodes but
  // not the node that joins them.
  bool expose() {
    bool any = false;
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      if (i >= g_.numNodes() || g_.loss == g_.node(NodeId(i)).firstResult)
        continue;
      Change c;
      c.cut.assign(g_.numNodes(), false);
      c.cut[i] = true;
      ValueList operands = operandsOf(g_.node(NodeId(i)).firstResult);
      std::vector<ValueId> outputs(operands.begin(), operands.end());
      for (ValueId v : g_.outputs())
        if (g_.value(v).def != NodeId(i) && !llvm::is_contained(outputs, v))
          outputs.push_back(v);
      c.outputs = outputs;
      any |= attempt(c, /*mustShrink=*/true);
    }
    return any;
  }

  Graph g_;
  const std::function<bool(const Graph &)> &fails_;
};

} // namespace

Graph reduce(Graph g, const std::function<bool(const Graph &)> &fails) {
  return Reducer(std::move(g), fails).run();
}

} // namespace isthmus
