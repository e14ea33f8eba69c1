#include "passes/stages/work_bars.h"

namespace isthmus {

llvm::StringRef workKindName(WorkKind k) {
  static constexpr llvm::StringRef kNames[kNumWorkKinds] = {"forward", "backward", "update",
                                                            "recompute", "transfer"};
  return kNames[size_t(k)];
}

std::optional<uint32_t> microBatchOf(const Graph &g, NodeId id) {
  while (g.node(id).isClone())
    id = g.node(id).from.origin;
  const Node &n = g.node(id);
  if (n.is(StandIn::Chunk))
    return n.from.chunk;
  // What a boundary or a message passes on is of the micro-batch of the node that made it.
  const NodeId maker = n.isRestoring() ? g.value(n.from.restores).def : NodeId();
  if (maker && !Graph::isReplaced(maker))
    return microBatchOf(g, maker);
  return std::nullopt;
}

std::vector<std::vector<NodeId>> nodesByPlace(const Graph &g, const Places &places) {
  std::vector<std::vector<NodeId>> out(places.count());
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    out[places.of(NodeId(i))].push_back(NodeId(i));
  return out;
}

static WorkKind workKindOf(const Node &n) {
  switch (n.from.kind) {
  case StandIn::Clone:
  case StandIn::Boundary:
    return WorkKind::Recompute;
  case StandIn::Transfer:
    return WorkKind::Transfer;
  case StandIn::None:
  case StandIn::Chunk:
  case StandIn::Encoding:
  case StandIn::Inverse:
  case StandIn::Helper:
    break;
  }
  return n.phase == Phase::Forward    ? WorkKind::Forward
         : n.phase == Phase::Backward ? WorkKind::Backward
                                      : WorkKind::Update;
}

std::vector<WorkBar> workBars(const Graph &g, const Places &places, const StepTimes &times) {
  std::vector<WorkBar> bars;
  const auto nodes = nodesByPlace(g, places);
  for (uint32_t place = 0; place < nodes.size(); ++place) {
    const size_t firstBar = bars.size();
    for (uint32_t i = 0; i < nodes[place].size(); ++i) {
      const NodeId id = nodes[place][i];
      const NodeTime &t = times.nodes[id.index];
      const Node &n = g.node(id);
      if (t.end == t.begin || n.op->is(kWait)) // takes no time, or the device waits
        continue;
      const WorkKind kind = workKindOf(n);
      const std::optional<uint32_t> batch = microBatchOf(g, id);
      const bool goesOn = bars.size() > firstBar && bars.back().end == t.begin &&
                          bars.back().kind == kind && bars.back().batch == batch;
      if (!goesOn)
        bars.push_back({place, kind, batch, i, 0, t.begin, t.end});
      bars.back().count = i + 1 - bars.back().first;
      bars.back().end = t.end;
    }
  }
  return bars;
}

} // namespace isthmus
