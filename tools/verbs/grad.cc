#include "passes/compile/gradient.h"
#include "tools/cli/exit.h"
#include "tools/cli/graph_product.h"
#include "tools/cli/optimizer_flags.h"
#include "tools/cli/output.h"
#include "tools/verbs/verbs.h"

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  OptimizerFlags optimizer;
  GraphProduct product;
  std::string ys, xs, gradYs = "ones";
};

llvm::Error grad(const Options &o) {
  bool values = !o.ys.empty() || !o.xs.empty();
  if (values && (o.ys.empty() || o.xs.empty()))
    return usageError("--ys and --xs go together; '{0}' is missing",
                      o.ys.empty() ? "--ys" : "--xs");
  if (values && (!o.model.loss.empty() || !o.model.wrt.empty()))
    return usageError("--loss with --wrt and --ys with --xs are two ways to say it; give one");
  if (o.gradYs != "ones" && !values)
    return usageError("--grad-ys goes with --ys and --xs");
  if (llvm::Error e = checkOptimizer(o.optimizer))
    return e;
  auto model = loadForProduct(o.model, o.product);
  if (!model)
    return model.takeError();
  auto g =
      withGradients(std::move(model->graph), model->options, {o.ys, o.xs, o.gradYs == "inputs"});
  if (!g)
    return g.takeError();
  if (!o.optimizer.optimizer.empty()) {
    auto updated = withUpdates(*g, optimizerOf(o.optimizer));
    if (!updated)
      return updated.takeError();
    *g = std::move(updated->graph);
  }
  return writeGraph(*g, o.product.output, o.product.weights);
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
  addOptimizerFlags(app, o->optimizer,
                    "nodes that update the parameters take the place of their gradients, as in "
                    "`train`; the rate is an input");
  addGraphProduct(app, "the differentiated graph", o->product);
  return [o] { return grad(*o); };
}

} // namespace

const Verb kGrad = {
    "grad", "appends gradients, of any order",
    "isthmus grad mlp.isth --ys=%loss --xs=%fc1.weight --grad-ys=inputs -o mlp_grad.isth", setUp};

} // namespace isthmus
