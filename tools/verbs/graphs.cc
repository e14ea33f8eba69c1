// Verbs that make a graph: import, zoo.

#include "tools/cli/graph_product.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/cli/zoo_options.h"
#include "tools/verbs/verbs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace isthmus {
namespace {

struct ImportOptions {
  ModelOptions model;
  GraphProduct product;
};

llvm::Error import(const ImportOptions &o) {
  auto model = loadForProduct(o.model, o.product);
  if (!model)
    return model.takeError();
  model->options.differentiates = false;
  auto g = prepared(std::move(model->graph), model->options);
  if (!g)
    return g.takeError();
  return writeGraph(*g, o.product.output, o.product.weights);
}

VerbBody setUpImport(CLI::App &app) {
  auto o = std::make_shared<ImportOptions>();
  addModelOptions(app, o->model);
  addGraphProduct(app, "the graph", o->product);
  return [o] { return import(*o); };
}

struct ZooCall {
  std::string name;
  GraphProduct product;
  ZooOptions options;
};

llvm::Error zoo(const ZooCall &o) {
  if (o.name.empty()) {
    llvm::outs() << zooText();
    return llvm::Error::success();
  }
  if (llvm::Error e = checkGraphPath(o.product.output, o.product.weights))
    return e;
  CommandPaths paths;
  addGraphPaths(paths, o.product.output, o.product.weights);
  if (llvm::Error e = paths.check())
    return e;
  auto g = buildZoo(o.name, o.options);
  if (!g)
    return g.takeError();
  return writeGraph(*g, o.product.output, o.product.weights);
}

// The help of one model, if it is named beside --help: its own options, with its defaults.
std::string zooHelp(const CLI::App *app, std::string name, CLI::AppFormatMode mode) {
  const std::vector<std::string> given = app->get_option("NAME")->results();
  const ZooModel *model = llvm::find_if(
      zooModels(), [&](const ZooModel &m) { return !given.empty() && m.name == given.front(); });
  if (model == zooModels().end())
    return CLI::Formatter().make_help(app, std::move(name), mode);
  return zooText(*model) + "\nUsage: isthmus zoo " + model->name +
         " [OPTIONS] [-o OUT.isth|OUT.onnx] [--weights=W.safetensors]\n";
}

VerbBody setUpZoo(CLI::App &app) {
  auto o = std::make_shared<ZooCall>();
  app.add_option("NAME", o->name,
                 "the model; without it, the list of models; with --help, its own options");
  app.formatter_fn(zooHelp);
  addZooOptions(app, o->options, "Options of models, each for some of them");
  addGraphProduct(app, "the graph", o->product);
  return [o] { return zoo(*o); };
}

} // namespace

const Verb kImport = {"import", "turns an ONNX file into the text form",
                      "isthmus import resnet18.onnx --dim N=8 -o resnet18.isth", setUpImport};
const Verb kZoo = {"zoo", "makes a graph of a well-known network",
                   "isthmus zoo resnet --depth=50 --batch=8 -o resnet50.isth\n"
                   "  isthmus zoo glow --depth=8 --levels=2 --width=64 --shape=1x8x8 -o glow.isth",
                   setUpZoo};

} // namespace isthmus
