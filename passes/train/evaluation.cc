#include "passes/train/evaluation.h"

#include "passes/differentiate/mode.h"
#include "passes/rebuild.h"
#include "passes/simplify/dce.h"

namespace isthmus {
namespace {

bool isForwardResult(const Graph &g, size_t output) {
  NodeId def = g.value(g.outputs()[output]).def;
  return g.role(output).kind == OutputKind::Result && (!def || g.node(def).phase == Phase::Forward);
}

} // namespace

Graph evaluationOf(const Graph &step, EvaluationMode mode) {
  Rebuilder r(step);
  r.copyInputs();
  std::vector<Rebuilder::OldOutput> results;
  for (uint32_t i = 0; i < step.numNodes(); ++i)
    r.copyNode(NodeId(i));
  for (size_t i = 0; i < step.outputs().size(); ++i)
    if (isForwardResult(step, i))
      results.push_back({step.outputs()[i], step.role(i)});
  Graph forward = withoutDeadNodes(r.finish(results));
  if (mode == EvaluationMode::AsWritten)
    return forward;
  Graph out = withMode(forward, Mode::Eval);
  out.record.mode = ModeSource::Eval;
  return out;
}

} // namespace isthmus
