#include "ir/provenance.h"
#include "tools/view/step_table.h"

namespace isthmus {
namespace {

constexpr size_t kMostInputs = 1000; // whose kind is told

void addNodes(StepTable &t, const Graph &g) {
  OpNumbers ops(t.ops);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    t.nodes.push_back({ops(*n.op), n.phase, n.from.kind, n.firstResult.index});
    std::vector<uint32_t> &operands = t.operands.emplace_back();
    for (ValueId v : n.operands)
      operands.push_back(v.index);
  }
}

// Values of replaced nodes, which do not run, have no maker.
void addValues(StepTable &t, const Graph &g) {
  TextNumbers types(t.types);
  for (uint32_t i = 0; i < g.numValues(); ++i) {
    const Value &v = g.value(ValueId(i));
    const bool isMade = v.def && !Graph::isReplaced(v.def);
    t.values.push_back({types(v.type.str()), isMade ? v.def.index + 1 : 0,
                        originalValue(g, ValueId(i)).index, std::string(v.name)});
  }
  for (const Input &input : g.inputs())
    if (t.inputs.size() < kMostInputs)
      t.inputs.push_back({input.value.index, inputKindName(input.kind).str()});
}

} // namespace

llvm::Expected<StepTable> stepTableOf(const Graph &g, const Layout *layout, const Target &target) {
  auto timeline = timelineOf(g, layout, target);
  if (!timeline)
    return timeline.takeError();
  StepTable t;
  t.timeline = std::move(*timeline);
  if (!layout) // only its live bytes are drawn
    return t;
  addNodes(t, g);
  addValues(t, g);
  t.modules = modulesOf(g);
  return t;
}

} // namespace isthmus
