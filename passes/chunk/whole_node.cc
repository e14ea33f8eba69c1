#include "passes/chunk/whole_node.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace isthmus {
namespace {

using ByValue = std::vector<bool>;

// Whether a chunk makes the value, or what it follows from.
ByValue afterChunks(const Graph &g) {
  ByValue after(g.numValues(), false);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const bool reads = llvm::any_of(n.operands, [&](ValueId v) { return after[v.index]; });
    for (uint32_t r = 0; r < n.numResults; ++r)
      after[n.result(r).index] = reads || n.is(StandIn::Chunk);
  }
  return after;
}

bool hasResultIn(const Node &n, const ByValue &values) {
  return llvm::any_of(llvm::seq(0u, n.numResults),
                      [&](uint32_t r) { return values[n.result(r).index]; });
}

// Whether a chunk reads the value, or what follows from it.
ByValue beforeChunks(const Graph &g, bool onlyForward) {
  ByValue before(g.numValues(), false);
  for (uint32_t i = uint32_t(g.numNodes()); i-- > 0;) {
    const Node &n = g.node(NodeId(i));
    const bool isChunk = n.is(StandIn::Chunk) && (!onlyForward || n.phase == Phase::Forward);
    if (isChunk || hasResultIn(n, before))
      for (ValueId v : n.operands)
        before[v.index] = true;
  }
  return before;
}

} // namespace

std::vector<WholeNode> wholeNodes(const Graph &g) {
  const ByValue after = afterChunks(g), before = beforeChunks(g, /*onlyForward=*/false),
                beforeForward = beforeChunks(g, /*onlyForward=*/true);
  std::vector<WholeNode> out;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.phase == Phase::Forward && !n.is(StandIn::Chunk) && !n.op->is(kView) &&
        hasResultIn(n, before) &&
        llvm::any_of(n.operands, [&](ValueId v) { return after[v.index]; }))
      out.push_back({NodeId(i), hasResultIn(n, beforeForward)});
  }
  return out;
}

} // namespace isthmus
