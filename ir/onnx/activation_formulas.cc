#include "ir/onnx/activation_formulas.h"

#include "ir/element.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

bool isNear(double a, double b) { return std::fabs(a - b) <= 1e-6 * std::fabs(b); }

// Matches formulas in the nodes of a graph.
class Formulas {
public:
  explicit Formulas(const Graph &g) : g_(g) {}

  // The node that defines `v`, if it is of this row.
  const Node *madeBy(ValueId v, llvm::StringRef row) const {
    NodeId def = v ? g_.value(v).def : NodeId();
    const Node *n = def ? &g_.node(def) : nullptr;
    return n && n->op->name == row ? n : nullptr;
  }

  struct Multiple {
    double factor;
    ValueId of;
  };
  // The values that `v` is a multiple of: itself, and its operand if a node scales that by a
  // number.
  llvm::SmallVector<Multiple, 2> multiples(ValueId v) const {
    llvm::SmallVector<Multiple, 2> out = {{1, v}};
    if (const Node *n = madeBy(v, "affine"); n && n->attrs.getFloat("shift") == 0)
      out.push_back({n->attrs.getFloat("scale"), n->operands[0]});
    else if (const Node *n = madeBy(v, "div"))
      if (double divisor = numberIn(n->operands[1]))
        out.push_back({1 / divisor, n->operands[0]});
    return out;
  }
  // The factor by which `v` is a multiple of `x`; zero if it is none.
  double factor(ValueId v, ValueId x) const {
    for (const Multiple &m : multiples(v))
      if (m.of == x)
        return m.factor;
    return 0;
  }
  // The other operand of a binary node; none if `x` is not an operand.
  static ValueId beside(const Node &n, ValueId x) {
    return n.operands[0] == x ? n.operands[1] : n.operands[1] == x ? n.operands[0] : ValueId();
  }
  bool isCube(ValueId v, ValueId x) const {
    const Node *product = madeBy(v, "mul");
    ValueId rest = product ? beside(*product, x) : ValueId();
    if (const Node *square = madeBy(rest, "square"))
      return square->operands[0] == x;
    const Node *square = madeBy(rest, "mul");
    return square && square->operands[0] == x && square->operands[1] == x;
  }
  // x + 0.044715 x^3
  bool isGeluCubic(ValueId v, ValueId x) const {
    const Node *sum = madeBy(v, "add");
    if (!sum)
      return false;
    for (const Multiple &m : multiples(beside(*sum, x)))
      if (isNear(m.factor, 0.044715) && isCube(m.of, x))
        return true;
    return false;
  }
  // If `v` is 1 + erf(...) or 1 + tanh(...) as in a GELU of `x`, the form of that GELU ("none" or
  // "tanh"); else "".
  llvm::StringRef geluForm(ValueId v, ValueId x) const {
    const Node *sum = madeBy(v, "affine");
    if (!sum || sum->attrs.getFloat("scale") != 1 || sum->attrs.getFloat("shift") != 1)
      return "";
    if (const Node *erf = madeBy(sum->operands[0], "erf"))
      return isNear(factor(erf->operands[0], x), std::sqrt(0.5)) ? "none" : "";
    if (const Node *tanh = madeBy(sum->operands[0], "tanh"))
      for (const Multiple &m : multiples(tanh->operands[0]))
        if (isNear(m.factor, std::sqrt(2 / M_PI)) && isGeluCubic(m.of, x))
          return "tanh";
    return "";
  }

private:
  // The number in a constant of one element; zero for any other value.
  double numberIn(ValueId v) const {
    const Input *in = g_.inputOf(v);
    if (!in || in->kind != InputKind::Const || g_.type(v).elements() != 1 || !in->init.data)
      return 0;
    return elementAsDouble(in->init.data, 0);
  }

  const Graph &g_;
};

// scale * x * gate
std::optional<Operand> activation(NodeContext &n, const Formulas::Multiple &x,
                                  const Formulas::Multiple &gate, double scale) {
  Formulas f(n.state.graph);
  scale *= x.factor * gate.factor;
  Operand operand = n.state.values.value(x.of);
  if (const Node *sigmoid = f.madeBy(gate.of, "sigmoid"); sigmoid && scale == 1) {
    double alpha = f.factor(sigmoid->operands[0], x.of);
    if (alpha == 1)
      return n.emit("silu", {operand});
    if (alpha != 0)
      return n.emit("swish", {operand}, {{"alpha", alpha}});
  }
  llvm::StringRef form = scale == 0.5 ? f.geluForm(gate.of, x.of) : "";
  if (form.empty())
    return std::nullopt;
  return n.emit("gelu", {operand}, {{"approximate", form.str()}});
}

} // namespace

std::optional<Operand> activationOfProduct(NodeContext &n, const Operand &a, const Operand &b,
                                           double scale) {
  if (n.failed() || !a.value || !b.value || a.type != b.type || !isFloat(a.type.dtype))
    return std::nullopt;
  Formulas f(n.state.graph);
  for (auto [x, gate] : {std::pair(a.value, b.value), std::pair(b.value, a.value)})
    for (const Formulas::Multiple &ofX : f.multiples(x)) {
      if (n.state.graph.type(ofX.of) != a.type) // the number's shape broadcast x
        continue;
      for (const Formulas::Multiple &ofGate : f.multiples(gate))
        if (auto y = activation(n, ofX, ofGate, scale))
          return y;
    }
  return std::nullopt;
}

std::optional<Operand> activationOfScaled(NodeContext &n, const Operand &product, double scale) {
  const Node *mul = Formulas(n.state.graph).madeBy(product.value, "mul");
  if (!mul)
    return std::nullopt;
  return activationOfProduct(n, n.state.values.value(mul->operands[0]),
                             n.state.values.value(mul->operands[1]), scale);
}

std::optional<Operand> softmaxOfMasked(NodeContext &n, const Operand &condition,
                                       const Operand &zero, const Operand &y) {
  Formulas f(n.state.graph);
  const Node *isNan = f.madeBy(condition.value, "is_nan"), *softmax = f.madeBy(y.value, "softmax");
  if (!isNan || !softmax || isNan->operands[0] != y.value || constantScalar(zero) != 0.0)
    return std::nullopt;
  Attrs attrs = softmax->attrs;
  attrs.set("zero_if_masked", true);
  return n.emit("softmax", {n.state.values.value(softmax->operands[0])}, attrs);
}

} // namespace isthmus::onnx_import
