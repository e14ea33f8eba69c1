#include "tools/cli/model.h"

#include "ir/onnx/import.h"
#include "ir/text/isth_file.h"
#include "ir/verifier.h"
#include "kernels/fold.h"
#include "passes/checkpoint/policy.h"
#include "passes/differentiate/differentiate.h"
#include "passes/differentiate/loss.h"
#include "passes/differentiate/mode.h"
#include "passes/lower/channels_last.h"
#include "passes/lower/convert.h"
#include "passes/lower/fuse_bias.h"
#include "passes/names.h"
#include "passes/simplify/dce.h"
#include "tools/cli/console.h"
#include "tools/cli/feeds.h"

namespace isthmus {
namespace {

// In `meta`, where the mode is not what a graph of this kind has by itself.
constexpr const char *kMode = "mode", *kEval = "eval", *kAsWritten = "as-written";

bool isKeywordOfWrt(llvm::StringRef wrt) {
  return wrt.empty() || wrt == "params" || wrt == "inputs" || wrt == "all";
}

Outside outsideOf(const ModelOptions &o) {
  return o.allowOutside ? Outside::Allowed : Outside::Refused;
}

// What is given for an input; null if nothing is, or its file is broken.
const Tensor *tensorFor(const GivenInputs &given, llvm::StringRef input) {
  const Given *found = givenFor(given, input, fileName(input));
  return found && found->tensor ? &found->tensor : nullptr;
}

llvm::Expected<Graph> readOnnx(const ModelOptions &o, CommandPaths &paths,
                               const GivenInputs &given) {
  OnnxOptions onnx;
  auto dims = dimBindings(o);
  if (!dims)
    return dims.takeError();
  onnx.dims = *dims;
  auto ties = tiesOf(o);
  if (!ties)
    return ties.takeError();
  onnx.ties = std::move(*ties);
  onnx.untie = parseNameList(o.untie);
  if (!isKeywordOfWrt(o.wrt))
    onnx.learn = parseNameList(o.wrt);
  onnx.fold = foldWithPlainKernels;
  onnx.note = [](const std::string &text) { Console::get().note(text); };
  onnx.inputValue = [&](llvm::StringRef input) { return tensorFor(given, input); };
  onnx.outside = outsideOf(o);
  onnx.reads = [&](const std::string &path) { paths.reads("external data of " + o.model, path); };
  auto g = importOnnx(o.model, onnx);
  if (!g)
    return g.takeError();
  return withoutDeadNodes(*g);
}

} // namespace

llvm::Expected<Graph> loadModel(const ModelOptions &o, CommandPaths &paths,
                                const GivenInputs &given) {
  bool isOnnx = llvm::StringRef(o.model).endswith(".onnx");
  if (!isOnnx && o.model != "-" && !llvm::StringRef(o.model).endswith(".isth"))
    return makeError("'{0}' is neither an .onnx nor an .isth file; the name tells the format",
                     o.model);
  for (const auto &[name, each] : given)
    paths.reads("--inputs", each.from);
  auto g = isOnnx ? readOnnx(o, paths, given) : loadIsth(o.model, outsideOf(o));
  if (!g)
    return g.takeError();
  if (!isOnnx && !(o.ties.empty() && o.untie.empty()))
    return makeErrorCode(2, "--tie and --untie tell what tensors of .onnx files mean; in an .isth "
                            "file every parameter has one name");
  if (!g->weightsFile.empty())
    paths.reads("the weights of " + o.model, pathBeside(o.model, g->weightsFile));
  if (llvm::Error e = paths.check())
    return e;
  if (!isOnnx && !o.dims.empty())
    return makeErrorCode(
        2, "--dim binds symbolic sizes of .onnx files; those of an .isth are constant");
  if (llvm::Error e = verify(*g))
    return e;
  if (o.eval) {
    *g = withMode(*g, Mode::Eval);
    g->meta[kMode] = kEval;
  }
  if (o.precision.empty())
    return g;
  return withPrecision(*g, o.precision == kTf32 ? DType::F32 : *parseDType(o.precision));
}

// --- Modes

std::string modeOf(const Graph &g) {
  auto recorded = g.meta.find(kMode);
  return recorded != g.meta.end() ? recorded->second : g.hasBackward() ? "train" : kAsWritten;
}

Graph inTrainingMode(Graph g, const ModelOptions &o) {
  if (g.hasBackward() || o.eval)
    return g;
  if (o.asWritten) {
    g.meta[kMode] = kAsWritten;
    return g;
  }
  g.meta.erase(kMode);
  if (!dependsOnMode(g))
    return g;
  Console::get().note(
      "the graph is differentiated, so it trains: batch norm uses the batch's "
      "statistics and moves its averages, dropout drops; --eval and --as-written say "
      "otherwise");
  return withMode(g, Mode::Training);
}

// --- Differentiation

llvm::Expected<std::vector<ValueId>> wrtValues(const Graph &g, llvm::StringRef wrt) {
  std::vector<ValueId> out;
  if (wrt.empty())
    wrt = "params";
  if (!isKeywordOfWrt(wrt))
    return matchValues(g, wrt);
  for (const Input &i : g.inputs()) {
    bool wanted = (i.kind == InputKind::Param && wrt != "inputs") ||
                  (i.kind == InputKind::Input && wrt != "params");
    if (wanted && isFloat(g.type(i.value).dtype))
      out.push_back(i.value);
  }
  if (out.empty())
    return makeError(
        "--wrt={0}: the graph has none that is floating-point; name values with --wrt=%a,%b", wrt);
  return out;
}

namespace {

// Tells what the options leave to a rule.
void noteLoss(const Graph &g, const ModelOptions &o, ValueId loss) {
  auto [kind, value] = splitLoss(o.loss);
  std::vector<std::string> floats;
  for (ValueId v : g.outputs())
    if (isFloat(g.type(v).dtype) && v != loss &&
        (!g.value(v).def || g.node(g.value(v).def).phase == Phase::Forward))
      floats.push_back("%" + g.valueName(v).str());
  if (!kind.empty() && value.empty() && floats.size() > 1)
    Console::get().note("--loss=" + o.loss + " takes the first of " +
                        std::to_string(floats.size()) + " floating-point outputs, " + floats[0] +
                        "; --loss=" + o.loss + ":" + floats[1] + " takes another");
  if (int64_t n = g.type(loss).elements(); n != 1)
    Console::get().note("'%" + g.valueName(loss).str() + "' has " + std::to_string(n) +
                        " elements: their sum is differentiated, and is the loss that is reported");
}

llvm::Expected<ValueId> lossToDifferentiate(Graph &g, const ModelOptions &o,
                                            const GivenInputs &given) {
  if (o.loss.empty() && !g.loss)
    return makeError(
        "{0}: the graph names no loss; give one with --loss={1}, KIND:%value or %value", o.model,
        kLossNames);
  if (o.loss.empty())
    return g.loss;
  LossOptions options{o.loss, o.classAxis, o.ignoreIndex};
  if (const Tensor *labels = tensorFor(given, "labels"))
    options.labels = &labels->type;
  return attachLoss(g, options);
}

} // namespace

llvm::Error differentiateLoss(Graph &g, const ModelOptions &o, const GivenInputs &given) {
  // What is differentiated by is looked up first, since the loss may add inputs of its own; but
  // what is wrong with the loss is told first.
  auto xs = wrtValues(g, o.wrt);
  auto y = lossToDifferentiate(g, o, given);
  if (!y) {
    if (!xs)
      llvm::consumeError(xs.takeError());
    return y.takeError();
  }
  if (!xs)
    return xs.takeError();
  noteLoss(g, o, *y);
  auto grads = gradients(g, {*y}, *xs);
  if (!grads)
    return grads.takeError();
  if (llvm::none_of(*grads, [](ValueId v) { return bool(v); }))
    return makeError(
        "no gradient of '%{0}' reaches {1}: it does not depend on them, or only through "
        "ops without a gradient; name another value with --loss, or others to "
        "differentiate by with --wrt",
        g.valueName(*y),
        o.wrt.empty() ? std::string("a parameter") : "what --wrt=" + o.wrt + " names");
  addGradientOutputs(g, *xs, *grads);
  return llvm::Error::success();
}

bool hasLoss(const Graph &g, const ModelOptions &o) { return g.loss || !o.loss.empty(); }

llvm::Expected<Graph> differentiated(Graph g, const ModelOptions &o, const GivenInputs &given) {
  if (g.hasBackward()) {
    if (!o.loss.empty() || !o.wrt.empty())
      return makeErrorCode(
          2,
          "the graph is differentiated already, so --loss and --wrt have no meaning here; `isthmus "
          "grad` differentiates again");
    return g;
  }
  if (hasLoss(g, o)) // else there is nothing to say of training
    g = inTrainingMode(std::move(g), o);
  if (llvm::Error e = differentiateLoss(g, o, given))
    return e;
  return g;
}

namespace {
constexpr DType kAllFloats[] = {DType::F32, DType::F64, DType::BF16, DType::F16};
// In `meta`.
constexpr const char *kLayout = "layout", *kBias = "bias", *kFused = "fused";
} // namespace

Form formFor(const ModelOptions &o, const Target &target) {
  Form form;
  form.fusesBias = target.fusesBias;
  form.channelsLast = o.layout == kLastLayout   ? llvm::makeArrayRef(kAllFloats)
                      : o.layout == kAutoLayout ? llvm::makeArrayRef(target.channelsLast)
                                                : llvm::None;
  return form;
}

// (A plan may be another order alone, without clones.)
bool wasPlanned(const Graph &g) { return g.hasClones() || g.meta.count("policy"); }

Form formOf(const Graph &g) {
  Form form;
  auto bias = g.meta.find(kBias), layout = g.meta.find(kLayout);
  form.fusesBias = bias != g.meta.end() && bias->second == kFused;
  if (layout != g.meta.end() && layout->second == kLastLayout)
    form.channelsLast = kAllFloats;
  return form;
}

Graph inForm(Graph g, const Form &form) {
  if (wasPlanned(g))
    return g;
  g = withoutIdleDrops(std::move(g));
  if (convolvesChannelsFirst(g, form.channelsLast)) {
    g = withChannelsLast(g);
    g.meta[kLayout] = kLastLayout;
  }
  if (form.fusesBias) {
    g = withFusedBias(g);
    g.meta[kBias] = kFused;
  }
  return g;
}

Graph lowered(Graph g, const ModelOptions &o, const Target &target) {
  auto layout = g.meta.find(kLayout);
  const std::string has = layout == g.meta.end() ? kFirstLayout : layout->second;
  if (wasPlanned(g) && o.layout != kAutoLayout && o.layout != has)
    Console::get().note("the graph was planned " + has + " and stays so");
  return inForm(std::move(g), formFor(o, target));
}

} // namespace isthmus
