#include "passes/checkpoint/bottlenecks.h"

#include "ir/loss_value.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/biconnected_components.hpp>

namespace isthmus {
namespace {

bool isForward(const Graph &g, NodeId n) {
  return g.node(n).phase == Phase::Forward && !g.node(n).isStandIn();
}

// By node: whether it is a forward ancestor of the loss or, without a loss, of an output.
std::vector<bool> ancestorsOfLoss(const Graph &g) {
  std::vector<bool> is(g.numNodes(), false);
  auto mark = [&](ValueId v) {
    if (NodeId def = g.value(v).def; def && isForward(g, def))
      is[def.index] = true;
  };
  if (ValueId loss = lossOf(g))
    mark(loss);
  else
    for (ValueId v : g.outputs())
      mark(v);
  for (uint32_t i = g.numNodes(); i-- > 0;)
    if (is[i])
      for (ValueId v : g.node(NodeId(i)).operands)
        mark(v);
  return is;
}

// What counts as data beside inputs of kind Input.
struct Data {
  bool constants, draws;
};

bool isDrawn(const Node &n) { return n.op->effect == Effect::Draws; }
bool isConstant(const Node &n) { return n.operands.empty() && !isDrawn(n); } // full, iota

// Drops the nodes that depend on no data.
void dropSideBranches(const Graph &g, Data data, std::vector<bool> &onPath) {
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    if (!onPath[i])
      continue;
    const Node &n = g.node(NodeId(i));
    onPath[i] = (data.draws && isDrawn(n)) || (data.constants && isConstant(n)) ||
                llvm::any_of(n.operands, [&](ValueId v) {
                  if (NodeId def = g.value(v).def)
                    return bool(onPath[def.index]);
                  const InputKind kind = g.inputOf(v)->kind;
                  return kind == InputKind::Input || (data.constants && kind == InputKind::Const);
                });
  }
}

// `onPath`: the nodes between the data and the loss.
std::vector<ValueId> bottlenecksAmong(const Graph &g, const std::vector<bool> &onPath) {
  // Vertices: nodes, then values, then a source before all data and a sink.
  using Undirected = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;
  const size_t nodes = g.numNodes(), source = nodes + g.numValues(), sink = source + 1;
  Undirected u(sink + 1);
  std::vector<bool> isRead(g.numValues(), false);
  for (uint32_t i = 0; i < nodes; ++i) {
    if (!onPath[i])
      continue;
    const Node &n = g.node(NodeId(i));
    bool isFirst = true;
    for (ValueId v : n.operands)
      if (NodeId def = g.value(v).def; def && onPath[def.index]) {
        boost::add_edge(nodes + v.index, i, u);
        isRead[v.index] = true;
        isFirst = false;
      }
    if (isFirst)
      boost::add_edge(source, i, u);
  }
  ValueId loss = lossOf(g);
  const llvm::DenseSet<ValueId> outputs(g.outputs().begin(), g.outputs().end());
  for (uint32_t i = 0; i < nodes; ++i)
    for (uint32_t r = 0; onPath[i] && r < g.node(NodeId(i)).numResults; ++r) {
      ValueId v = g.node(NodeId(i)).result(r);
      bool ends = loss ? v == loss : outputs.count(v) != 0;
      if (isRead[v.index] || ends)
        boost::add_edge(i, nodes + v.index, u);
      if (ends)
        boost::add_edge(nodes + v.index, sink, u);
    }

  std::vector<size_t> points;
  boost::articulation_points(u, std::back_inserter(points));
  std::vector<ValueId> out;
  for (size_t p : points)
    if (p >= nodes && p < source)
      out.push_back(ValueId(static_cast<uint32_t>(p - nodes)));
  llvm::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

} // namespace

std::vector<ValueId> bottlenecks(const Graph &g) {
  const std::vector<bool> ancestors = ancestorsOfLoss(g);
  const bool hasDraws = g.countNodes(isDrawn) > 0;
  const bool hasConstants =
      g.countNodes(isConstant) > 0 ||
      llvm::any_of(g.inputs(), [](const Input &i) { return i.kind == InputKind::Const; });
  std::vector<ValueId> most;
  for (Data data : {Data{false, false}, Data{true, false}, Data{false, true}, Data{true, true}}) {
    if ((data.constants && !hasConstants) || (data.draws && !hasDraws))
      continue;
    std::vector<bool> onPath = ancestors;
    dropSideBranches(g, data, onPath);
    std::vector<ValueId> found = bottlenecksAmong(g, onPath);
    if (found.size() > most.size())
      most = std::move(found);
  }
  return most;
}

} // namespace isthmus
