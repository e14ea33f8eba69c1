#include "passes/compile/compile.h"

#include "ir/check.h"
#include "ir/units.h"
#include "ir/verifier.h"
#include "passes/compile/accurate_inverses.h"
#include "passes/compile/effect.h"
#include "passes/compile/planning.h"
#include "passes/compile/stages.h"
#include "passes/differentiate/mode.h"
#include "passes/lower/convert.h"
#include "passes/rewrite/original.h"
#include "passes/simplify/joined_slices.h"
#include "passes/simplify/late_updates.h"

namespace isthmus {

llvm::Expected<Graph> prepared(Graph g, const CompileOptions &o) {
  if (g.numReplaced() > 0 && (o.precision || o.step.mode == ModeSource::Eval)) {
    o.note("the graph runs in chunks of its own precision and mode; in another it is whole, and "
           "without a plan of its own");
    g = originalOf(g);
  }
  if (o.step.mode == ModeSource::Eval) {
    g = withMode(g, Mode::Eval);
    g.record.mode = ModeSource::Eval;
  }
  if (o.precision) {
    auto converted = withPrecision(g, *o.precision, o.step.note);
    if (!converted)
      return converted;
    if (g.record.budgetBytes && !converted->record.budgetBytes)
      o.note("the budget on record, " + bytesText(*g.record.budgetBytes) +
             ", was for another precision, so the plan is not held to it");
    g = std::move(*converted);
  }
  o.tell(CompileStep::Convert, g);
  if (!o.differentiates)
    return g;
  if (g.isRewritten() && !g.hasBackward()) // the plan of a forward part is none of a step
    g = originalOf(g);
  if (!o.exactOnly && !g.hasBackward())
    g = withJoinedSlices(g);
  return trainingStep(std::move(g), o.step);
}

namespace {

LoweringOptions loweringChosen(const Graph &g, const CompileOptions &o, const Target &target) {
  if (o.exactOnly)
    return {};
  if (g.wasPlanned() && o.layout != ChannelLayout::Auto &&
      (o.layout == ChannelLayout::Last) != g.record.channelsLast)
    o.note("the graph was planned channels-" +
           std::string(g.record.channelsLast ? "last" : "first") + " and stays so");
  return o.lowering ? *o.lowering : loweringFor(target, o.layout);
}

} // namespace

// Shows the graph between two steps, and checks it in builds that look for bugs.
static void after(CompileStep step, const Graph &g, const CompileOptions &o) {
#ifdef ISTHMUS_VERIFY
  if (llvm::Error e = verify(g))
    ISTHMUS_CHECK(false, ("after " + compileStepName(step) + ": ").str() + toString(std::move(e)));
#endif
  o.tell(step, g);
}

llvm::Expected<Compiled> compile(Graph forward, const CompileOptions &o, const Target &target) {
  auto g = prepared(std::move(forward), o);
  if (!g)
    return g.takeError();
  after(CompileStep::Differentiate, *g, o);
  if (!g->wasPlanned())
    *g = withoutIdleDrops(std::move(*g));
  LoweringOptions lowering = loweringChosen(*g, o, target);
  *g = lowered(std::move(*g), lowering);
  if (!g->wasPlanned())
    *g = withLateUpdates(std::move(*g));
  after(CompileStep::Lower, *g, o);
  // The plan, the rewrite and the layout.
  auto c = hasStages(*g, o) ? plannedInStages(std::move(*g), o, target)
           : o.firstStep && o.searches() && o.ways.invert
               ? plannedAccurately(std::move(*g), o, target)
               : planned(std::move(*g), o, target);
  if (c) {
    after(CompileStep::Rewrite, c->graph, o);
    noteLittleEffect(*c, o, target);
  }
  return c;
}

} // namespace isthmus
