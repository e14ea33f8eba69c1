#include "passes/differentiate/training_step.h"

#include "ir/name_list.h"
#include "ir/ops/averages.h"
#include "passes/differentiate/differentiate.h"
#include "passes/differentiate/micro_norms.h"
#include "passes/differentiate/mode.h"
#include "passes/names.h"
#include "passes/simplify/dce.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

void tell(const NoteSink &note, Remark remark) {
  if (note)
    note(remark);
}

// The kind of values in `wrt`, for messages: "parameter", "input", ...
const char *wrtText(const Wrt &wrt) {
  switch (wrt.kind) {
  case Wrt::Kind::Params:
    return "parameter";
  case Wrt::Kind::Inputs:
    return "input";
  case Wrt::Kind::All:
    return "parameter or input";
  case Wrt::Kind::Named:
    return "value that was named to differentiate by";
  }
  return "";
}

llvm::Expected<std::vector<ValueId>> valuesOf(const Graph &g, const Wrt &wrt) {
  if (wrt.kind == Wrt::Kind::Named) {
    auto named = matchValues(g, wrt.names);
    if (named)
      return named;
    llvm::Error e = locate(named.takeError(), g.sourceFile);
    for (const NamePattern &p : parseNameList(wrt.names))
      if (parseWrt(p.text).kind != Wrt::Kind::Named && !g.find(p.text))
        return addNote(std::move(e), "params, inputs and all are no names, and stand alone; all "
                                     "is both parameters and inputs");
    return e;
  }
  std::vector<ValueId> out;
  for (const Input &i : g.inputs()) {
    bool wanted = (i.kind == InputKind::Param && wrt.kind != Wrt::Kind::Inputs) ||
                  (i.kind == InputKind::Input && wrt.kind != Wrt::Kind::Params);
    if (wanted && isFloat(g.type(i.value).dtype))
      out.push_back(i.value);
  }
  if (out.empty())
    return locate(addRemedy(makeError("the graph has no floating-point {0}", wrtText(wrt)),
                            {"wrt", "%a,%b", "name what to differentiate by"}),
                  g.sourceFile);
  return out;
}

// Reports the choices that the options leave to a rule.
void noteLoss(const Graph &g, const StepOptions &o, ValueId loss) {
  std::vector<std::string> floats;
  for (ValueId v : g.outputs())
    if (isFloat(g.type(v).dtype) && v != loss &&
        (!g.value(v).def || g.node(g.value(v).def).phase == Phase::Forward))
      floats.push_back("%" + g.valueName(v).str());
  if (o.loss && o.loss->kind != LossKind::Value && o.loss->value.empty() && floats.size() > 1) {
    const std::string kind = lossName(o.loss->kind).str();
    tell(o.note, {"the loss " + kind + " takes the first of " + std::to_string(floats.size()) +
                      " floating-point outputs, " + floats[0],
                  {"loss", kind + ":" + floats[1], "take another"}});
  }
  if (int64_t n = g.type(loss).elements(); n != 1)
    tell(o.note, "'%" + g.valueName(loss).str() + "' has " + std::to_string(n) +
                     " elements: their sum is differentiated, and is the loss that is reported");
}

llvm::Expected<ValueId> lossToDifferentiate(Graph &g, const StepOptions &o) {
  if (o.loss)
    return attachLoss(g, *o.loss);
  if (g.loss)
    return g.loss;
  return locate(addRemedy(makeError("the graph names no loss"),
                          {"loss", kLossNames.str() + ", KIND:%value or %value", "give one"}),
                g.sourceFile);
}

// Drops the model's results, all but the loss, and the nodes that computed nothing else.
Graph withoutModelOutputs(Graph g) {
  std::vector<std::pair<ValueId, OutputRole>> kept;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).kind != OutputKind::Result || g.outputs()[i] == g.loss)
      kept.push_back({g.outputs()[i], g.role(i)});
  if (kept.size() == g.outputs().size())
    return g;
  g.clearOutputs();
  for (const auto &[value, role] : kept)
    g.addOutput(value, role);
  return withoutDeadNodes(g);
}

} // namespace

Wrt parseWrt(llvm::StringRef text) {
  if (text.empty() || text == "params")
    return {Wrt::Kind::Params, ""};
  if (text == "inputs")
    return {Wrt::Kind::Inputs, ""};
  if (text == "all")
    return {Wrt::Kind::All, ""};
  return {Wrt::Kind::Named, text.str()};
}

bool hasLoss(const Graph &g, const StepOptions &o) { return g.loss || o.loss; }

llvm::StringRef modeText(const Graph &g) {
  switch (g.record.mode) {
  case ModeSource::Eval:
    return "eval";
  case ModeSource::AsWritten:
    return "as-written";
  case ModeSource::Rule:
    break;
  }
  return g.hasBackward() ? "train" : "as-written";
}

Graph inTrainingMode(Graph g, const StepOptions &o) {
  if (g.hasBackward() || o.mode == ModeSource::Eval)
    return g;
  g.record.mode = o.mode;
  if (o.mode == ModeSource::AsWritten || !dependsOnMode(g))
    return g;
  Remark remark("the graph is differentiated, so it trains: batch norm uses the batch's statistics "
                "and moves its averages, dropout drops");
  remark.remedies = {{"eval", "", "infer"}, {"as-written", "", "do as the file says"}};
  tell(o.note, remark);
  return withMode(g, Mode::Training);
}

// Whether elements of `y` depend on one of `xs`, other than through a stop_gradient.
static bool dependsOn(const Graph &g, ValueId y, llvm::ArrayRef<ValueId> xs) {
  llvm::BitVector depends(unsigned(g.numValues()));
  for (ValueId x : xs)
    depends.set(x.index);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (!n.op->is(kStopsGradient) &&
        llvm::any_of(n.operands, [&](ValueId v) { return depends.test(v.index); }))
      depends.set(n.firstResult.index, n.firstResult.index + n.numResults);
  }
  return depends.test(y.index);
}

// Up to three names: "'%a', '%b', '%c' and 4 others".
static std::string someNames(const Graph &g, llvm::ArrayRef<ValueId> values) {
  constexpr size_t kMost = 3;
  std::string text;
  for (ValueId v : values.take_front(kMost))
    text += (text.empty() ? "'%" : ", '%") + g.valueName(v).str() + "'";
  if (values.size() > kMost)
    text += " and " + std::to_string(values.size() - kMost) + " others";
  return text;
}

void noteUnreached(const Graph &g, llvm::ArrayRef<ValueId> ys, llvm::ArrayRef<ValueId> xs,
                   llvm::ArrayRef<ValueId> grads, const char *option, const NoteSink &note) {
  std::vector<ValueId> unreached;
  for (size_t i = 0; i < xs.size(); ++i)
    if (!grads[i])
      unreached.push_back(xs[i]);
  if (!unreached.empty())
    tell(note, {"no gradient of " + someNames(g, ys) + " reaches " + someNames(g, unreached) +
                    ": what is given for " + (unreached.size() == 1 ? "it" : "them") + " is zeros",
                {option, "", "name others to differentiate by"}});
}

llvm::Error differentiateLoss(Graph &g, const StepOptions &o) {
  // The values to differentiate by are looked up first, since the loss may add inputs of its own;
  // but an error of the loss is reported first.
  auto xs = valuesOf(g, o.wrt);
  auto y = lossToDifferentiate(g, o);
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
  if (llvm::none_of(*grads, [](ValueId v) { return bool(v); })) {
    const std::string none = llvm::formatv("no gradient of '%{0}' reaches a {1}: it depends on ",
                                           g.valueName(*y), wrtText(o.wrt));
    if (!dependsOn(g, *y, *xs))
      return addRemedy(addRemedy(makeError("{0}none, or only through a stop_gradient", none),
                                 {"loss", "", "name another value"}),
                       {"wrt", "", "name others to differentiate by"});
    tell(o.note, {none + "them only through ops without a gradient, so all gradients are zero",
                  {"loss", "", "name another value"}});
  } else if (o.wrt.kind == Wrt::Kind::Named) {
    noteUnreached(g, *y, *xs, *grads, "wrt", o.note);
  }
  addGradientOutputs(g, *xs, *grads);
  return llvm::Error::success();
}

// A graph that is differentiated keeps the statistics that its gradients are of.
static llvm::Error checkNorms(const Graph &g, const StepOptions &o) {
  for (uint32_t i = 0; o.normParts > 0 && i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); takesBatchStatistics(*n.op, n.attrs))
      return locate(addRemedy(makeError("the graph is differentiated, with the statistics of the "
                                        "whole batch in '{0}'",
                                        g.nodeName(NodeId(i))),
                              {"batch-norm", "micro", "take the forward model, and give"}),
                    g.whereIs(NodeId(i)));
  return llvm::Error::success();
}

llvm::Expected<Graph> trainingStep(Graph g, const StepOptions &o) {
  if (g.hasBackward()) {
    if (llvm::Error e = checkNorms(g, o))
      return e;
    return g;
  }
  if (hasLoss(g, o)) // else differentiateLoss fails, and a remark on training would mislead
    g = inTrainingMode(std::move(g), o);
  if (o.normParts > 0) {
    auto micro = withMicroNorms(g, o.normParts);
    if (!micro)
      return micro.takeError();
    g = std::move(*micro);
  }
  if (llvm::Error e = differentiateLoss(g, o))
    return e;
  if (o.loss && o.loss->kind != LossKind::Value && !o.keepsOutputs)
    g = withoutModelOutputs(std::move(g));
  return g;
}

} // namespace isthmus
