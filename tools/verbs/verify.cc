#include "ir/element.h"
#include "ir/loss_value.h"
#include "ir/rounded_values.h"
#include "tools/cli/console.h"
#include "tools/cli/devices.h"
#include "tools/cli/execute.h"
#include "tools/cli/exit.h"
#include "tools/cli/model.h"
#include "tools/cli/unused_dims.h"
#include "tools/verbs/verbs.h"
#include <array>
#include <cmath>
#include <cstring>

namespace isthmus {
namespace {

struct Options {
  ModelOptions model;
  std::string other, device = "cpu", outputs;
  std::optional<double> maxInverseError;
  int steps = 1;
};

struct Result {
  Tensor tensor;
  bool isRounded = false;     // an inverse or a sum of chunks changed its rounding
  bool isModelOutput = false; // of a step: neither its loss, a gradient nor a next state
};
using Results = std::map<std::string, Result>;

// What one side computed. A step that a loss KIND made may lack the outputs of its model.
struct Side {
  std::string path;
  Results results;
  bool isStep = false; // differentiated as it was given
};

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
  ModelOptions model = o.model;
  model.unusedDims = std::make_shared<UnusedDims>();
  for (size_t i : {0, 1}) {
    model.model = i == 0 ? o.model.model : o.other;
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
  if (llvm::Error e = model.unusedDims->check())
    return e;
  const auto &[first, second] = sides.graphs;
  if (first.hasBackward() && second.hasBackward() &&
      (!o.model.loss.empty() || !o.model.wrt.empty()))
    return usageError(
        "both graphs are differentiated already, so --loss and --wrt have no meaning here");
  if (!differentiates)
    Console::get().note("no loss is given (--loss) or named in the files: the forward parts run, " +
                        std::string(o.model.eval ? "for inference" : "as written"));
  for (size_t i : {0, 1}) {
    const Graph &graph = sides.graphs[i], &other = sides.graphs[1 - i];
    CompileOptions &options = sides.options[i];
    if (graph.wasPlanned() || (graph.hasBackward() && !other.hasBackward()))
      options.precision.reset(); // it has the precision that the other is to have
    options.differentiates = differentiates;
    options.step.keepsOutputs = true; // to compare them, if both have them
    // Both are lowered alike: the form of a graph that was planned is fixed.
    if (first.wasPlanned() || second.wasPlanned()) {
      options.lowering = loweringOf(first.wasPlanned() ? first.record : second.record);
      options.exactOnly = false;
    }
  }
  return sides;
}

llvm::Error writeOutputsOf(const Graph &g, Session &s, const Options &o) {
  CommandPaths paths;
  paths.reads("MODEL", o.model.model);
  paths.reads("OTHER", o.other);
  paths.writesFolder("--outputs", o.outputs);
  for (const std::string &file : outputFiles(g, o.outputs))
    paths.writes("--outputs", file);
  if (llvm::Error failed = paths.check())
    return failed;
  return writeOutputs(g, s, o.outputs);
}

// A file may say of its outputs that chunks rounded them; nothing in it shows whether they did.
void tellWhatTheFileSays(const std::string &path, const Graph &g) {
  std::vector<std::string> rounded;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).isRounded)
      rounded.push_back("%" + g.valueName(g.outputs()[i]).str());
  if (!rounded.empty())
    Console::get().note("compared within an error, because '" + path +
                        "' says that chunks rounded them: " + llvm::join(rounded, ", "));
}

// Runs the graph unchanged and returns every output; writes them to `outputs`, unless it is empty.
llvm::Expected<Side> sideOf(const std::string &path, Graph g, const CompileOptions &options,
                            const Options &o, const GivenInputs &given, Device &device,
                            bool writes) {
  Side side{path, {}, g.hasBackward()};
  tellWhatTheFileSays(path, g);
  auto c = compiled(std::move(g), options, device.target());
  if (!c)
    return c.takeError();
  Report report(c->figures);
  auto session = execute(*c, device, {o.steps, o.model.seed, given}, report);
  if (!session)
    return session.takeError();
  const Graph &step = c->graph;
  if (writes)
    if (llvm::Error failed = writeOutputsOf(step, **session, o))
      return failed;
  const llvm::BitVector isRounded = roundedValues(step);
  for (size_t i = 0; i < step.outputs().size(); ++i) {
    const ValueId v = step.outputs()[i];
    auto t = (*session)->fetch(v);
    if (!t)
      return t.takeError();
    const bool isModelOutput =
        step.hasBackward() && step.role(i).kind == OutputKind::Result && v != lossOf(step);
    side.results[step.valueName(v).str()] = {std::move(*t), isRounded.test(v.index), isModelOutput};
  }
  return side;
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

// The last place of the largest element, as a share of it; of 16-bit types, whose rounding counts.
double lastPlace(DType t) { return t == DType::BF16 ? 0x1p-7 : t == DType::F16 ? 0x1p-10 : 0; }

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
  return llvm::formatv("it depends on inverses or sums of chunks, and is off by {0:e1} of its "
                       "largest element; "
                       "--max-inverse-error allows {1:e1}",
                       error, maxError)
      .str();
}

// The largest error that is allowed of an output.
class MostError {
public:
  explicit MostError(std::optional<double> given) : given_(given) {}

  double of(llvm::StringRef name, DType type) const {
    const auto own = own_.find(name.str());
    return given_ || own == own_.end() ? before(type)
                                       : std::max(before(type), kTimes * own->second);
  }
  // The same without MODEL's own errors. Sums that are rounded at other places are off by two last
  // places at most, inverses by more.
  double before(DType type) const {
    return given_ ? std::max(*given_, 2 * lastPlace(type)) : std::max(1e-3, 4 * lastPlace(type));
  }
  bool isGiven() const { return given_.has_value(); }

  // A gradient that cancels, such as that of a bias before a norm, is rounding itself: no plan can
  // be nearer to MODEL than MODEL is to its own result in f64. If MODEL is in f64, its error is
  // that of f32, scaled.
  void setOwn(const Results &own, const Results &inOtherPrecision) {
    constexpr double kF64InF32 = 0x1p-29; // the ratio of the last places
    for (const auto &[name, result] : own)
      if (auto it = inOtherPrecision.find(name);
          it != inOtherPrecision.end() && isFloat(result.tensor.type.dtype))
        own_[name] = relativeError(result.tensor, it->second.tensor) *
                     (result.tensor.type.dtype == DType::F64 ? kF64InF32 : 1);
  }

private:
  static constexpr double kTimes = 8;

  std::optional<double> given_;
  std::map<std::string, double> own_; // by output: the error of MODEL itself
};

bool isAnyF64(const Results &all) {
  return llvm::any_of(all, [](const auto &e) { return e.second.tensor.type.dtype == DType::F64; });
}

// Whether an output that may be rounded differs by more than is allowed.
bool isAnyTooFar(const Results &a, const Results &b, const MostError &most) {
  return llvm::any_of(a, [&](const auto &entry) {
    const auto it = b.find(entry.first);
    double worst = 0;
    return it != b.end() && (entry.second.isRounded || it->second.isRounded) &&
           !compare(entry.second, it->second, most.of(entry.first, entry.second.tensor.type.dtype),
                    worst)
                .empty();
  });
}

// Collects what differs.
class Comparison {
public:
  explicit Comparison(MostError most) : most_(std::move(most)) {}

  void both(llvm::StringRef name, const Result &a, const Result &b) {
    ++(a.isRounded || b.isRounded ? numRounded_ : numExact_);
    double error = 0;
    const DType type = a.tensor.type.dtype;
    if (std::string d = compare(a, b, most_.of(name, type), error); !d.empty())
      differs("output '%" + name.str() + "': " + d);
    if (error <= most_.before(type))
      worst_ = std::max(worst_, error);
    else
      ++numCancelled_;
  }

  // Outputs that `b` lacks. Those of the model are no difference if `b` is a step: a loss KIND lets
  // them die.
  void onlyIn(const Side &a, const Side &b) {
    std::vector<std::string> left;
    for (const auto &[name, result] : a.results) {
      if (b.results.count(name))
        continue;
      if (result.isModelOutput && b.isStep)
        left.push_back("%" + name);
      else
        differs("output '%" + name + "' of '" + a.path + "' is not in '" + b.path + "'");
    }
    if (!left.empty())
      Console::get().note(
          "not compared, because '" + b.path +
          "' is a step without these outputs of the model: " + llvm::join(left, ", "));
  }

  llvm::Error end() {
    if (!diags_.empty())
      return llvm::make_error<ExitError>(std::move(diags_), kDiffers);
    std::string summary = llvm::formatv("{0} outputs are equal bit for bit", numExact_);
    if (numRounded_ > 0)
      summary +=
          llvm::formatv("; {0} depend on inverses or sums of chunks, and are off by {1:e1} of "
                        "their largest element at most",
                        numRounded_, worst_);
    if (numCancelled_ > 0)
      summary += llvm::formatv(
          ", except {0} in which so much cancels that MODEL's own rounding is as large",
          numCancelled_);
    Console::get().line(summary);
    return llvm::Error::success();
  }

private:
  void differs(std::string message) {
    Diag d;
    d.message = std::move(message);
    diags_.push_back(std::move(d));
  }

  MostError most_;
  double worst_ = 0;
  size_t numExact_ = 0, numRounded_ = 0, numCancelled_ = 0;
  std::vector<Diag> diags_;
};

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
  if (!o.outputs.empty())
    if (llvm::Error e = checkOutputsFolder(o.outputs))
      return e;
  auto given = readInputs(o.model.inputs);
  if (!given)
    return given.takeError();
  auto sides = bothSides(o, *given);
  if (!sides)
    return sides.takeError();
  const Graph model = sides->graphs[0];
  std::array<Side, 2> found;
  for (size_t i : {0, 1}) {
    auto side = sideOf(i == 0 ? o.model.model : o.other, std::move(sides->graphs[i]),
                       sides->options[i], o, *given, **device, i == 0 && !o.outputs.empty());
    if (!side)
      return side.takeError();
    found[i] = std::move(*side);
  }

  const auto &[a, b] = found;
  MostError most(o.maxInverseError);
  if (!most.isGiven() && isAnyTooFar(a.results, b.results, most)) {
    CompileOptions options = sides->options[0];
    options.precision = isAnyF64(a.results) ? DType::F32 : DType::F64;
    auto other = sideOf(o.model.model, model, options, o, *given, **device, false);
    if (other)
      most.setOwn(a.results, other->results);
    else
      llvm::consumeError(other.takeError()); // it cannot run in that precision
  }
  Comparison comparison(most);
  for (const auto &[name, result] : a.results)
    if (auto it = b.results.find(name); it != b.results.end())
      comparison.both(name, result, it->second);
  comparison.onlyIn(a, b);
  comparison.onlyIn(b, a);
  return comparison.end();
}

VerbBody setUp(CLI::App &app) {
  auto o = std::make_shared<Options>();
  addModelOptions(app, o->model);
  app.add_option("OTHER", o->other, "the model to compare with")->required();
  app.add_option("--device", o->device, "the device on which both run")->capture_default_str();
  app.add_option(
         "--max-inverse-error", o->maxInverseError,
         "the largest error of an output that depends on inverses or on sums of chunks, as "
         "a share of its largest element; all other outputs are compared bit by bit; "
         "default: 1e-3, four places of the last bit of a 16-bit type, or eight times the error of "
         "MODEL itself beside f64")
      ->check(nonNegativeNumber());
  app.add_option("--steps", o->steps, "how often to repeat the step")
      ->capture_default_str()
      ->check(positiveInteger());
  addPathOption(app, "--outputs", o->outputs,
                "a folder to write NAME.npy of every output of MODEL to, as it is compared");
  return [o] { return verifyBoth(*o); };
}

} // namespace

const Verb kVerify = {"verify",
                      "runs two models on the same inputs and compares every output bit by bit",
                      "isthmus verify unet.onnx unet.isth --dim N=2 --loss=cross_entropy", setUp};

} // namespace isthmus
