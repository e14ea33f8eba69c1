#include "passes/compile/inverted.h"
#include "tools/cli/exit.h"
#include "tools/cli/graph_product.h"
#include "tools/cli/output.h"
#include "tools/verbs/verbs.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  GraphProduct product;
  std::string ys, xs;
  size_t iterations = kUsualIterations;
};

llvm::Error invert(const Options &o) {
  if (!o.model.loss.empty() || !o.model.wrt.empty())
    return usageError(
        "an inverse has no loss and no gradients: --loss and --wrt do not go with it");
  if (o.iterations > Ways::kMostIterations)
    return usageError("--iterations expects a number from 1 to {0}, got {1}", Ways::kMostIterations,
                      o.iterations);
  auto model = loadForProduct(o.model, o.product);
  if (!model)
    return model.takeError();
  auto inverse = inverted(std::move(model->graph), model->options, o.ys, o.xs, o.iterations);
  if (!inverse)
    return inverse.takeError();
  return writeGraph(*inverse, o.product.output, o.product.weights);
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.add_option("--ys", o->ys, "values that are known, as %z: the inputs of the inverse")
      ->required();
  app.add_option("--xs", o->xs, "values to compute from them, as %x: the outputs of the inverse")
      ->required();
  app.add_option("--iterations", o->iterations,
                 "how many iterations of x = y - f(x) invert a sum y = x + f(x) that is marked "
                 "#contraction; each multiplies the error by f's Lipschitz constant")
      ->check(positiveInteger())
      ->capture_default_str();
  addGraphProduct(app, "the inverse", o->product);
  return [o] { return invert(*o); };
}

} // namespace

const Verb kInvert = {
    "invert", "makes the graph that goes back from results to inputs, such as a flow's sampler",
    "isthmus invert flow.isth --ys=%z --xs=%x -o sampler.isth", setUp};

} // namespace isthmus
