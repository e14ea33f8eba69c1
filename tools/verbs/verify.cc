#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/execute.h"
#include "tools/cli/model.h"
#include "tools/verbs/verbs.h"
#include <cstring>

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  std::string other, device = "cpu", inputs;
  int steps = 1;
};

using Results = std::map<std::string, Tensor>;

bool isOnnx(llvm::StringRef path) { return path.endswith(".onnx"); }

struct Side {
  Graph graph; // differentiated
  bool wasForward = false;
};

llvm::Expected<Side> sideOf(const std::string &path, const Options &o, const GivenInputs &given) {
  ModelOptions model = o.model;
  model.model = path;
  if (!isOnnx(path) && (isOnnx(o.model.model) || isOnnx(o.other)))
    model.dims.clear(); // these are for the one that has open sizes
  CommandPaths paths;   // nothing is written
  auto g = loadModel(model, paths, given);
  if (!g)
    return g.takeError();
  bool wasForward = !g->hasBackward();
  if (!wasForward)
    model.loss = model.wrt = ""; // these are for whichever of the two is forward
  g = differentiated(std::move(*g), model);
  if (!g)
    return g.takeError();
  return Side{std::move(*g), wasForward};
}

// Both in one form: a graph that was planned has its own.
Form formOfBoth(const Graph &a, const Graph &b, const ModelOptions &o, const Target &target) {
  return wasPlanned(a) ? formOf(a) : wasPlanned(b) ? formOf(b) : formFor(o, target);
}

// Every output, after running the graph as it is.
llvm::Expected<Results> resultsOf(const Graph &g, const Options &o, const GivenInputs &given,
                                  Device &device) {
  auto p = planned(g, {}, device.target());
  if (!p)
    return p.takeError();
  Report report = p->report;
  auto e = execute(*p, device, {o.steps, o.model.seed, given}, report);
  if (!e)
    return e.takeError();
  Results out;
  for (ValueId v : p->graph.outputs()) {
    auto t = (*e)->fetch(v);
    if (!t)
      return t.takeError();
    out[p->graph.valueName(v).str()] = std::move(*t);
  }
  return out;
}

std::string difference(const Tensor &a, const Tensor &b) {
  if (a.type != b.type)
    return "types " + a.type.str() + " and " + b.type.str();
  if (std::memcmp(a.data, b.data, a.bytes()) == 0)
    return "";
  int64_t width = dtypeBytes(a.type.dtype), count = 0, first = -1;
  for (int64_t i = 0; i < a.type.elements(); ++i)
    if (std::memcmp(a.data + i * width, b.data + i * width, width) != 0) {
      ++count;
      first = first < 0 ? i : first;
    }
  return llvm::formatv("{0} of {1} elements differ, the first at index {2}", count,
                       a.type.elements(), first)
      .str();
}

llvm::Error verifyBoth(const Options &o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (o.model.model == "-" && o.other == "-")
    return makeErrorCode(2, "only one of the two models can come from standard input");
  auto device = openDevice(o.device, deviceOptions(o.model));
  if (!device)
    return device.takeError();
  if (!(*device)->computes())
    return makeErrorCode(2, "verify needs a device that computes, and '{0}' only counts", o.device);
  auto given = readInputs(o.inputs);
  if (!given)
    return given.takeError();
  auto first = sideOf(o.model.model, o, *given);
  if (!first)
    return first.takeError();
  auto second = sideOf(o.other, o, *given);
  if (!second)
    return second.takeError();
  if (!first->wasForward && !second->wasForward && (!o.model.loss.empty() || !o.model.wrt.empty()))
    return makeErrorCode(
        2, "both graphs are differentiated already, so --loss and --wrt have no meaning here");
  Form form = formOfBoth(first->graph, second->graph, o.model, (*device)->target());
  auto a = resultsOf(inForm(std::move(first->graph), form), o, *given, **device);
  if (!a)
    return a.takeError();
  auto b = resultsOf(inForm(std::move(second->graph), form), o, *given, **device);
  if (!b)
    return b.takeError();

  std::vector<Diag> diags;
  auto differs = [&](std::string message) {
    Diag d;
    d.message = std::move(message);
    diags.push_back(std::move(d));
  };
  for (const auto &[name, t] : *a) {
    auto it = b->find(name);
    if (it == b->end())
      differs("output '%" + name + "' of '" + o.model.model + "' is not in '" + o.other + "'");
    else if (std::string d = difference(t, it->second); !d.empty())
      differs("output '%" + name + "': " + d);
  }
  for (const auto &[name, t] : *b)
    if (!a->count(name))
      differs("output '%" + name + "' of '" + o.other + "' is not in '" + o.model.model + "'");
  if (!diags.empty())
    return llvm::make_error<DiagError>(std::move(diags), 4);
  Console::get().line(llvm::formatv("{0} outputs are equal bit for bit", a->size()).str());
  return llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.add_option("OTHER", o->other, "the model to compare with")->required();
  app.add_option("--device", o->device, "where both run")->capture_default_str();
  app.add_option("--steps", o->steps, "how often to repeat the step")
      ->capture_default_str()
      ->check(positiveInteger());
  addPathOption(app, "--inputs", o->inputs,
                "a folder with NAME.npy for graph inputs; what is missing is drawn");
  return [o] { return verifyBoth(*o); };
}

} // namespace

const Verb kVerify = {"verify",
                      "runs two models on the same inputs and compares every output bit by bit",
                      "isthmus verify unet.onnx unet.isth --dim N=2 --loss=cross_entropy", setUp};

} // namespace isthmus
