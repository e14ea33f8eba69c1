#include "ir/element.h"
#include "passes/rewrite/original.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/execute.h"
#include "tools/cli/exit.h"
#include "tools/cli/model.h"
#include "tools/verbs/verbs.h"
#include <array>
#include <cmath>
#include <cstring>

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  std::string other, device = "cpu";
  double maxInverseError = 1e-3;
  int steps = 1;
};

struct Result {
  Tensor tensor;
  bool isRounded = false; // an inverse changed its rounding
};
using Results = std::map<std::string, Result>;

bool isOnnx(llvm::StringRef path) { return path.endswith(".onnx"); }

ModelOptions optionsFor(const std::string &path, const Options &o) {
  ModelOptions model = o.model;
  model.model = path;
  if (!isOnnx(path) && (isOnnx(o.model.model) || isOnnx(o.other)))
    model.dims.clear(); // these are for the model that has open sizes
  return model;
}

// Both graphs and their compile options. The model options apply to the graph that is forward.
struct Sides {
  std::array<Graph, 2> graphs;
  std::array<CompileOptions, 2> options;
};

// If one graph is differentiated, or there is a loss, the other is differentiated too; two forward
// graphs without a loss run as written.
llvm::Expected<Sides> bothSides(const Options &o, const GivenInputs &given) {
  Sides sides;
  CommandPaths paths; // nothing is written
  bool differentiates = !o.model.wrt.empty();
  for (size_t i : {0, 1}) {
    const ModelOptions model = optionsFor(i == 0 ? o.model.model : o.other, o);
    auto g = loadModel(model, paths, given);
    if (!g)
      return g.takeError();
    auto options = compileOptions(model, {}, given);
    if (!options)
      return options.takeError();
    differentiates |= g->hasBackward() || hasLoss(*g, options->step);
    sides.graphs[i] = std::move(*g);
    sides.options[i] = std::move(*options);
  }
  const auto &[first, second] = sides.graphs;
  if (first.hasBackward() && second.hasBackward() &&
      (!o.model.loss.empty() || !o.model.wrt.empty()))
    return usageError(
        "both graphs are differentiated already, so --loss and --wrt have no meaning here");
  if (!differentiates)
    Console::get().note("no loss is given (--loss) or named in the files: the forward parts run, " +
                        std::string(o.model.eval ? "for inference" : "as written"));
  for (CompileOptions &options : sides.options) {
    options.differentiates = differentiates;
    // Both are lowered alike: the form of a graph that was planned is fixed.
    if (first.wasPlanned() || second.wasPlanned()) {
      options.lowering = loweringOf(first.wasPlanned() ? first.record : second.record);
      options.exactOnly = false;
    }
  }
  return sides;
}

// Runs the graph unchanged and returns every output.
llvm::Expected<Results> resultsOf(Graph g, const CompileOptions &options, const Options &o,
                                  const GivenInputs &given, Device &device) {
  auto c = compiled(std::move(g), options, device.target());
  if (!c)
    return c.takeError();
  Report report(c->figures);
  auto e = execute(*c, device, {o.steps, o.model.seed, given}, report);
  if (!e)
    return e.takeError();
  Results out;
  const llvm::BitVector isRounded = dependOnInverses(c->graph);
  for (ValueId v : c->graph.outputs()) {
    auto t = (*e)->fetch(v);
    if (!t)
      return t.takeError();
    out[c->graph.valueName(v).str()] = {std::move(*t), isRounded.test(v.index)};
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

// The largest difference, as a share of the largest element.
double relativeError(const Tensor &a, const Tensor &b) {
  double most = 0, scale = 0;
  for (int64_t i = 0; i < a.type.elements(); ++i) {
    const double x = elementAsDouble(a, i), y = elementAsDouble(b, i);
    if (std::isnan(x) != std::isnan(y))
      return INFINITY;
    if (!std::isnan(x) && x != y)
      most = std::max(most, std::fabs(x - y));
    scale = std::max(scale, std::fabs(x));
  }
  return most == 0 ? 0 : most / scale;
}

// Describes a difference that is not allowed, or ""; raises `worst` to the error of rounded
// results.
std::string compare(const Result &a, const Result &b, double maxError, double &worst) {
  if (!a.isRounded && !b.isRounded)
    return difference(a.tensor, b.tensor);
  if (a.tensor.type != b.tensor.type || !isFloat(a.tensor.type.dtype))
    return difference(a.tensor, b.tensor);
  const double error = relativeError(a.tensor, b.tensor);
  worst = std::max(worst, error);
  if (error <= maxError)
    return "";
  return llvm::formatv("it depends on inverses, and is off by {0:e1} of its largest element; "
                       "--max-inverse-error allows {1:e1}",
                       error, maxError)
      .str();
}

llvm::Error verifyBoth(const Options &o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (o.model.model == "-" && o.other == "-")
    return usageError("only one of the two models can come from standard input");
  auto device = openDevice(o.device, deviceOptions(o.model));
  if (!device)
    return device.takeError();
  if (!(*device)->computes())
    return usageError("verify needs a device that computes, and '{0}' only counts", o.device);
  auto given = readInputs(o.model.inputs);
  if (!given)
    return given.takeError();
  auto sides = bothSides(o, *given);
  if (!sides)
    return sides.takeError();
  auto a = resultsOf(std::move(sides->graphs[0]), sides->options[0], o, *given, **device);
  if (!a)
    return a.takeError();
  auto b = resultsOf(std::move(sides->graphs[1]), sides->options[1], o, *given, **device);
  if (!b)
    return b.takeError();

  std::vector<Diag> diags;
  double worst = 0;
  size_t numRounded = 0;
  auto differs = [&](std::string message) {
    Diag d;
    d.message = std::move(message);
    diags.push_back(std::move(d));
  };
  for (const auto &[name, t] : *a) {
    auto it = b->find(name);
    numRounded += it != b->end() && (t.isRounded || it->second.isRounded);
    if (it == b->end())
      differs("output '%" + name + "' of '" + o.model.model + "' is not in '" + o.other + "'");
    else if (std::string d = compare(t, it->second, o.maxInverseError, worst); !d.empty())
      differs("output '%" + name + "': " + d);
  }
  for (const auto &[name, t] : *b)
    if (!a->count(name))
      differs("output '%" + name + "' of '" + o.other + "' is not in '" + o.model.model + "'");
  if (!diags.empty())
    return llvm::make_error<ExitError>(std::move(diags), kDiffers);
  std::string told = llvm::formatv("{0} outputs are equal bit for bit", a->size() - numRounded);
  if (numRounded > 0)
    told +=
        llvm::formatv("; {0} depend on inverses, and are off by {1:e1} of their largest element "
                      "at most",
                      numRounded, worst);
  Console::get().line(told);
  return llvm::Error::success();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.add_option("OTHER", o->other, "the model to compare with")->required();
  app.add_option("--device", o->device, "the device on which both run")->capture_default_str();
  app.add_option("--max-inverse-error", o->maxInverseError,
                 "how far outputs that depend on inverses may be off, as a share of their largest "
                 "element; all others are compared bit by bit")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  app.add_option("--steps", o->steps, "how often to repeat the step")
      ->capture_default_str()
      ->check(positiveInteger());
  return [o] { return verifyBoth(*o); };
}

} // namespace

const Verb kVerify = {"verify",
                      "runs two models on the same inputs and compares every output bit by bit",
                      "isthmus verify unet.onnx unet.isth --dim N=2 --loss=cross_entropy", setUp};

} // namespace isthmus
