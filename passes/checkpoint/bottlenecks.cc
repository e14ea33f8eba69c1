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

// Drops the nodes that depend on no input of kind Input.
void dropSideBranches(const Graph &g, std::vector<bool> &onPath) {
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    if (!onPath[i])
      continue;
    onPath[i] = llvm::any_of(g.node(NodeId(i)).operands, [&](ValueId v) {
      if (NodeId def = g.value(v).def)
        return bool(onPath[def.index]);
      return g.inputOf(v)->kind == InputKind::Input;
    });
  }
}

} // namespace

std::vector<ValueId> bottlenecks(const Graph &g) {
  std::vector<bool> onPath = ancestorsOfLoss(g);
  dropSideBranches(g, onPath);

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

} // namespace isthmus
