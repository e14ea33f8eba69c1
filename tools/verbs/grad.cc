#include "ir/builder.h"
#include "passes/checkpoint/policy.h"
#include "passes/differentiate/differentiate.h"
#include "passes/names.h"
#include "passes/rewrite/original.h"
#include "passes/simplify/dce.h"
#include "tools/cli/console.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/verbs/verbs.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  std::string ys, xs, gradYs = "ones", output, weights;
};

llvm::Error byValues(Graph &g, const Options &o) {
  auto ys = matchValues(g, o.ys);
  if (!ys)
    return ys.takeError();
  auto xs = matchValues(g, o.xs);
  if (!xs)
    return xs.takeError();
  ValueList seeds;
  if (o.gradYs == "inputs")
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
  addGradientOutputs(g, *xs, *grads);
  return llvm::Error::success();
}

llvm::Error grad(const Options &o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (llvm::Error e = checkGraphPath(o.output, o.weights))
    return e;
  bool values = !o.ys.empty() || !o.xs.empty();
  if (values && (o.ys.empty() || o.xs.empty()))
    return makeErrorCode(2, "--ys and --xs go together; '{0}' is missing",
                         o.ys.empty() ? "--ys" : "--xs");
  if (values && (!o.model.loss.empty() || !o.model.wrt.empty()))
    return makeErrorCode(2,
                         "--loss with --wrt and --ys with --xs are two ways to say it; give one");
  if (o.gradYs != "ones" && !values)
    return makeErrorCode(2, "--grad-ys goes with --ys and --xs");
  auto given = readInputs(o.model.inputs);
  if (!given)
    return given.takeError();
  auto paths = pathsToGraph(o.model.model, o.output, o.weights);
  if (!paths)
    return paths.takeError();
  auto loaded = loadModel(o.model, *paths, *given);
  if (!loaded)
    return loaded.takeError();
  Graph g = inTrainingMode(originalOf(*loaded), o.model);
  if (llvm::Error e = values ? byValues(g, o) : differentiateLoss(g, o.model, *given))
    return e;
  return writeGraph(withoutDeadNodes(g), o.output, o.weights);
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.add_option("--ys", o->ys, "values to differentiate, as %a,%b");
  app.add_option("--xs", o->xs, "values to differentiate by, as %p,%q");
  app.add_option("--grad-ys", o->gradYs,
                 "ones, or inputs: adds an input seed.NAME for each of --ys")
      ->capture_default_str()
      ->check(CLI::IsMember({"ones", "inputs"}));
  addPathOption(app, "-o,--output", o->output,
                "the differentiated graph, OUT.isth or OUT.onnx; default: standard output");
  addPathOption(app, "--weights", o->weights,
                "a .safetensors file for large weights; default: beside OUT.isth");
  return [o] { return grad(*o); };
}

} // namespace

const Verb kGrad = {
    "grad", "appends gradients, of any order",
    "isthmus grad mlp.isth --ys=%loss --xs=%fc1.weight --grad-ys=inputs -o mlp_grad.isth", setUp};

} // namespace isthmus
