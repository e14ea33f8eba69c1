#include "passes/compile/inverted.h"
#include "tools/cli/compiled.h"
#include "tools/cli/exit.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/verbs/verbs.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  std::string ys, xs, output, weights;
  size_t iterations = kUsualIterations;
};

llvm::Error invert(const Options &o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (llvm::Error e = checkGraphPath(o.output, o.weights))
    return e;
  if (!o.model.loss.empty() || !o.model.wrt.empty())
    return usageError(
        "an inverse has no loss and no gradients: --loss and --wrt do not go with it");
  auto given = readInputs(o.model.inputs);
  if (!given)
    return given.takeError();
  auto paths = pathsToGraph(o.model.model, o.output, o.weights);
  if (!paths)
    return paths.takeError();
  auto g = loadModel(o.model, *paths, *given);
  if (!g)
    return g.takeError();
  auto options = compileOptions(o.model, {}, *given);
  if (!options)
    return options.takeError();
  auto inverse = inverted(std::move(*g), *options, o.ys, o.xs, o.iterations);
  if (!inverse)
    return inverse.takeError();
  return writeGraph(*inverse, o.output, o.weights);
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.add_option("--ys", o->ys, "values that are known, as %z: the inputs of the inverse")
      ->required();
  app.add_option("--xs", o->xs, "values to be had from them, as %x: its outputs")->required();
  app.add_option(
         "--iterations", o->iterations,
         "of x = y - f(x), for each sum y = x + f(x) that is marked #contraction; the error "
         "of each is that of the last times f's Lipschitz constant")
      ->check(positiveInteger())
      ->capture_default_str();
  addPathOption(app, "-o,--output", o->output,
                "the inverse, OUT.isth or OUT.onnx; default: standard output");
  addPathOption(app, "--weights", o->weights,
                "a .safetensors file for large weights; default: beside OUT.isth");
  return [o] { return invert(*o); };
}

} // namespace

const Verb kInvert = {
    "invert", "makes the graph that goes back from results to inputs, such as a flow's sampler",
    "isthmus invert flow.isth --ys=%z --xs=%x -o sampler.isth", setUp};

} // namespace isthmus
