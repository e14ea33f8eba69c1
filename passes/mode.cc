#include "passes/mode.h"

#include "ir/check.h"
#include "passes/dce.h"
#include "passes/drawn_masks.h"
#include "passes/rebuild.h"

namespace isthmus {
namespace {

// Whether an output is the new value of a state input.
bool isNewState(const Graph &g, ValueId v) {
  NodeId def = g.value(v).def;
  return def && g.node(def).phase == Phase::Update && g.valueName(v).startswith("state.");
}

Graph setMode(const Graph &g, Mode mode) {
  std::vector<ValueId> outputs;
  for (ValueId v : g.outputs())
    if (mode == Mode::Training || !isNewState(g, v))
      outputs.push_back(v);
  llvm::BitVector live = liveNodes(g, outputs);

  Rebuilder r(g);
  r.copyInputs();
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (mode == Mode::Eval && !live.test(i))
      continue;
    if (!n.op->is(kDependsOnMode)) {
      r.copyNode(NodeId(i));
      continue;
    }
    Attrs attrs = n.attrs;
    attrs.set("training", mode == Mode::Training);
    auto copy = r.copyNodeWith(NodeId(i), std::move(attrs));
    if (!copy)
      ISTHMUS_CHECK(false, "the mode changed a type: " + llvm::toString(copy.takeError()));
  }
  return r.finish(outputs);
}

} // namespace

Graph withMode(const Graph &g, Mode mode) {
  return mode == Mode::Eval ? setMode(withoutDrawnMasks(g), mode) : setMode(g, mode);
}

} // namespace isthmus
