#include "passes/differentiate/loss.h"

#include "ir/builder.h"
#include "passes/names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

// The last axis other than `axis` whose removal gives `t` the dimensions of the labels.
std::optional<int64_t> axisThatFits(const Type &t, int64_t axis, const Type &labels) {
  for (int64_t k = t.rank(); k-- > 0;) {
    Dims dims = t.dims;
    dims.erase(dims.begin() + k);
    if (k != axis && dims == labels.dims)
      return k;
  }
  return std::nullopt;
}

llvm::Expected<ValueId> crossEntropy(Graph &g, ValueId y, const LossOptions &o) {
  const Type &t = g.type(y);
  if (o.classAxis < -t.rank() || o.classAxis >= t.rank())
    return addRemedy(makeError("cross_entropy expects the classes on axis {0} of '%{1}', which is "
                               "of type {2}",
                               o.classAxis, g.valueName(y), t.str()),
                     {"class-axis", "", "give another"});
  int64_t axis = o.classAxis < 0 ? o.classAxis + t.rank() : o.classAxis;
  Type wanted(DType::I64, t.dims);
  wanted.dims.erase(wanted.dims.begin() + axis);
  if (o.labels && o.labels->dims != wanted.dims)
    if (auto other = axisThatFits(t, axis, *o.labels))
      return addRemedy(
          makeError("with the classes on axis {0} of '%{1}', which is of type {2}, labels of type "
                    "{3} are expected, and those given are of type {4}: they fit classes on axis "
                    "{5}",
                    axis, g.valueName(y), t.str(), wanted.str(), o.labels->str(), *other),
          {"class-axis", std::to_string(*other), ""});
  auto labels = g.addInput(InputKind::Input, "labels", wanted);
  if (!labels)
    return labels.takeError();
  Attrs attrs{{"axis", o.classAxis}};
  if (o.ignoreIndex)
    attrs.set("ignore", Ints{*o.ignoreIndex});
  // A Builder would treat a failure as our bug; here a value without classes or a label that is too
  // large is an error of the user.
  auto node = g.addNode(OpRegistry::get().at("cross_entropy"), {y, *labels}, std::move(attrs),
                        {std::string("loss")});
  if (!node)
    return node.takeError();
  return g.node(*node).firstResult;
}

// --- Losses against a target of the output's type: means of element losses

ValueId squaredError(Builder &b, ValueId y, ValueId t) {
  return b.create("square", {b.create("sub", {y, t}, {}, "loss.error")}, {}, "loss.square");
}

ValueId absoluteError(Builder &b, ValueId y, ValueId t) {
  return b.create("abs", {b.create("sub", {y, t}, {}, "loss.error")}, {}, "loss.abs");
}

// Huber 1964: half the square for errors up to 1, linear beyond. With c = the error clamped to [-1,
// 1], it is c (error - c / 2).
ValueId huber(Builder &b, ValueId y, ValueId t) {
  ValueId error = b.create("sub", {y, t}, {}, "loss.error");
  ValueId c = b.create("clamp", {error}, {{"min", -1.0}, {"max", 1.0}}, "loss.clamped");
  ValueId half = b.create("affine", {c}, {{"scale", 0.5}}, "loss.half");
  return b.create("mul", {c, b.create("sub", {error, half}, {}, "loss.rest")}, {}, "loss.each");
}

// The logarithm of a probability as PyTorch's binary_cross_entropy has it: at least -100, and with
// a slope of at most 1e12, so that gradients at zero are finite. Its slope is that of log(max(v,
// 1e-12)), whose difference from the logarithm counts as a constant.
ValueId logOfProbability(Builder &b, ValueId v) {
  const double least = b.type(v).dtype == DType::F16 ? 0x1p-14 : 1e-12; // the least normal f16
  auto stop = [&](ValueId x) { return b.create("stop_gradient", {x}, {}, "loss.constant"); };
  auto clamp = [&](ValueId x, double min) {
    return b.create("clamp", {x}, {{"min", min}}, "loss.bounded");
  };
  const ValueId raise = stop(b.create("sub", {clamp(v, least), v}, {}, "loss.raise"));
  const ValueId raised =
      b.create("log", {b.create("add", {v, raise}, {}, "loss.raised")}, {}, "loss.log");
  const ValueId log = clamp(b.create("log", {v}, {}, "loss.log"), -100);
  return b.create("add", {raised, stop(b.create("sub", {log, raised}, {}, "loss.rest"))}, {},
                  "loss.bounded_log");
}

// -(t log y + (1 - t) log(1 - y)).
ValueId binaryCrossEntropy(Builder &b, ValueId y, ValueId t) {
  Attrs oneLess{{"scale", -1.0}, {"shift", 1.0}};
  ValueId yes = b.create("mul", {t, logOfProbability(b, y)}, {}, "loss.yes");
  ValueId not_y = b.create("affine", {y}, oneLess, "loss.not_y");
  ValueId not_t = b.create("affine", {t}, oneLess, "loss.not_t");
  ValueId no = b.create("mul", {not_t, logOfProbability(b, not_y)}, {}, "loss.no");
  return b.create("neg", {b.create("add", {yes, no}, {}, "loss.log_likelihood")}, {}, "loss.each");
}

// Binary cross entropy of y = sigmoid(x), computed from x: softplus(x) - t x, which is finite for
// all x.
ValueId binaryCrossEntropyOfLogits(Builder &b, ValueId x, ValueId t) {
  ValueId product = b.create("mul", {x, t}, {}, "loss.product");
  return b.create("sub", {b.create("softplus", {x}, {}, "loss.softplus"), product}, {},
                  "loss.each");
}

// t (log t - y) for log-probabilities y; zero where t is not positive.
ValueId divergence(Builder &b, ValueId y, ValueId t) {
  const Type type = b.type(y), scalar(type.dtype, {});
  ValueId zero = b.full(scalar, 0), one = b.full(scalar, 1);
  ValueId positive = b.create("greater", {t, zero}, {}, "loss.positive");
  ValueId safe = b.create("where", {positive, t, one}, {}, "loss.safe");
  ValueId ratio =
      b.create("sub", {b.create("log", {safe}, {}, "loss.log"), y}, {}, "loss.log_ratio");
  return b.create("where", {positive, b.create("mul", {t, ratio}, {}, "loss.product"), zero}, {},
                  "loss.each");
}

using ElementLoss = ValueId (*)(Builder &, ValueId y, ValueId target);
struct LossRow {
  LossKind kind;
  llvm::StringLiteral name;
  ElementLoss each; // of losses against a target; else null
};
constexpr LossRow kLosses[] = {
    {LossKind::CrossEntropy, "cross_entropy", nullptr},
    {LossKind::Mse, "mse", squaredError},
    {LossKind::L1, "l1", absoluteError},
    {LossKind::Huber, "huber", huber},
    {LossKind::Bce, "bce", binaryCrossEntropy},
    {LossKind::BceLogits, "bce_logits", binaryCrossEntropyOfLogits},
    {LossKind::KlDiv, "kl_div", divergence},
    {LossKind::Mean, "mean", nullptr},
};

llvm::Expected<ValueId> elementLoss(Graph &g, ValueId y, ElementLoss each) {
  auto target = g.addInput(InputKind::Input, "target", g.type(y));
  if (!target)
    return target.takeError();
  Builder b(g);
  return b.create("mean", {each(b, y, *target)}, {}, "loss");
}

llvm::Expected<ValueId> namedValue(const Graph &g, llvm::StringRef name) {
  ValueId v = valueNamed(g, name);
  if (!v) {
    std::vector<llvm::StringRef> known;
    for (uint32_t i = 0; i < g.numValues(); ++i)
      known.push_back(g.value(ValueId(i)).name);
    return makeError("no value is called '%{0}'{1}", name, didYouMean(name, known));
  }
  if (const Input *input = g.inputOf(v))
    return makeError(
        "'%{0}' is an input of the graph ({1}), and a loss is a value that is computed; "
        "name another",
        name, inputKindName(input->kind));
  if (g.type(v).memory != Memory::Device)
    return makeError("'%{0}', of type {1}, is no longer in the device's memory, where a loss is "
                     "computed; name the value that was copied",
                     name, g.type(v).str());
  return v;
}

// "; floating-point outputs are '%a', '%b'", or nothing.
std::string floatOutputs(const Graph &g) {
  std::vector<std::string> names;
  for (ValueId v : g.outputs())
    if (isFloat(g.type(v).dtype))
      names.push_back("'%" + g.valueName(v).str() + "'");
  return names.empty() ? "" : "; floating-point outputs are " + llvm::join(names, ", ");
}

// The value to which the loss is applied.
llvm::Expected<ValueId> lossOperand(const Graph &g, const LossOptions &o) {
  const std::string kind = lossName(o.kind).str();
  if (o.value.empty() && g.outputs().empty())
    return addRemedy(
        addRemedy(makeError("the loss {0} takes the first output, and the graph has none", kind),
                  {"loss", kind + ":%value", "name a value"}),
        {"loss", "%value", "differentiate one itself"});
  auto y = o.value.empty() ? llvm::Expected<ValueId>(g.outputs()[0]) : namedValue(g, o.value);
  if (y && !isFloat(g.type(*y).dtype))
    return addRemedy(
        makeError("the loss {0} expects a floating-point value, and {1} '%{2}' is of type {3}{4}",
                  kind, o.value.empty() ? "the first output" : "the value", g.valueName(*y),
                  g.type(*y).str(), floatOutputs(g)),
        {"loss", kind + ":%value", "name another"});
  return y;
}

llvm::Expected<ValueId> makeLoss(Graph &g, const LossOptions &o) {
  if (o.kind == LossKind::Value)
    return namedValue(g, o.value);
  auto y = lossOperand(g, o);
  if (!y)
    return y.takeError();
  if (o.kind == LossKind::CrossEntropy)
    return crossEntropy(g, *y, o);
  for (const LossRow &row : kLosses)
    if (row.kind == o.kind && row.each)
      return elementLoss(g, *y, row.each);
  return Builder(g).create("mean", {*y}, {}, "loss");
}

} // namespace

llvm::StringRef lossName(LossKind k) {
  for (const LossRow &row : kLosses)
    if (row.kind == k)
      return row.name;
  return "";
}

llvm::Expected<LossOptions> parseLoss(llvm::StringRef text) {
  auto [kind, value] = text.startswith("%") ? std::pair(llvm::StringRef(), text) : text.split(':');
  LossOptions o;
  o.value = value.drop_while([](char c) { return c == '%'; }).trim('"').str();
  if (text.startswith("%"))
    return o;
  std::vector<llvm::StringRef> known;
  for (const LossRow &row : kLosses) {
    known.push_back(row.name);
    if (row.name == kind && (text == kind || value.startswith("%"))) {
      o.kind = row.kind;
      return o;
    }
  }
  return makeError("a loss is one of {0}, KIND:%value or %value; got '{1}'{2}", kLossNames, text,
                   didYouMean(kind, known));
}

llvm::Expected<ValueId> attachLoss(Graph &g, const LossOptions &options) {
  if (options.ignoreIndex && options.kind != LossKind::CrossEntropy)
    return makeError(
        "a label that does not count goes with the loss cross_entropy, which alone has "
        "labels");
  auto loss = makeLoss(g, options);
  if (!loss)
    return loss.takeError();
  g.loss = *loss;
  if (!llvm::is_contained(g.outputs(), *loss))
    g.addOutput(*loss);
  return *loss;
}

} // namespace isthmus
