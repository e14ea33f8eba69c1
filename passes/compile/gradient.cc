#include "passes/compile/gradient.h"

#include "ir/builder.h"
#include "passes/differentiate/differentiate.h"
#include "passes/names.h"
#include "passes/rewrite/original.h"
#include "passes/simplify/dce.h"

namespace isthmus {
namespace {

llvm::Error byValues(Graph &g, const GradientOptions &o, const NoteSink &note) {
  auto ys = matchValues(g, o.ys);
  if (!ys)
    return ys.takeError();
  auto xs = matchValues(g, o.xs);
  if (!xs)
    return xs.takeError();
  ValueList seeds;
  if (o.seedsAreInputs)
    for (ValueId y : *ys) {
      auto seed =
          g.addInput(InputKind::Input, g.uniqueName("seed." + g.valueName(y).str()), g.type(y));
      if (!seed)
        return seed.takeError();
      seeds.push_back(*seed);
    }
  auto grads = gradients(g, *ys, *xs, seeds);
  if (!grads)
    return grads.takeError();
  noteUnreached(g, *ys, *xs, *grads, "xs", note);
  addGradientOutputs(g, *xs, *grads);
  return llvm::Error::success();
}

} // namespace

llvm::Expected<Graph> withGradients(Graph given, const CompileOptions &o,
                                    const GradientOptions &how) {
  CompileOptions asForward = o;
  asForward.differentiates = false;
  auto ready = prepared(std::move(given), asForward);
  if (!ready)
    return ready;
  Graph g = inTrainingMode(originalOf(*ready), o.step);
  if (llvm::Error e = how.ys.empty() ? differentiateLoss(g, o.step) : byValues(g, how, o.step.note))
    return e;
  return withoutDeadNodes(g);
}

} // namespace isthmus
