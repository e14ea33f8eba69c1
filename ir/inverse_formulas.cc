#include "ir/inverse_formulas.h"

#include "ir/element.h"
#include <cmath>

namespace isthmus {
namespace {

// scale * of + shift
struct Affine {
  ValueId of;
  double scale = 1, shift = 0;
};

ValueId scaled(Builder &b, ValueId v, double by) { return by == 1 ? v : b.scale(v, by); }

class Formulas {
public:
  Formulas(const Graph &g, bool areWeightsFixed) : g_(g), areWeightsFixed_(areWeightsFixed) {}

  std::optional<InverseFormula> of(const Node &last) const {
    return last.op->name == "div"     ? odds(last)
           : last.op->name == "sub"   ? logit(last)
           : last.op->name == "where" ? softplus(last)
                                      : std::nullopt;
  }

private:
  const Node *madeBy(ValueId v, llvm::StringRef row) const {
    const NodeId def = g_.value(v).def;
    const Node *n = def ? &g_.node(def) : nullptr;
    return n && n->op->name == row && n->phase == Phase::Forward ? n : nullptr;
  }

  // The number that a constant or a `full` holds everywhere, if it broadcasts to `type`.
  std::optional<double> number(ValueId v, const Type &type) const {
    if (const Node *full = madeBy(v, "full"))
      return full->attrs.getFloat("value");
    const Input *in = g_.inputOf(v);
    const bool isFixed =
        in && (in->kind == InputKind::Const || (areWeightsFixed_ && in->kind == InputKind::Param));
    if (!isFixed || g_.type(v).rank() > type.rank())
      return std::nullopt;
    if (in->init.kind == Initializer::Kind::Fill)
      return in->init.args.getFloat("value");
    if (!in->init.data || g_.type(v).elements() != 1)
      return std::nullopt;
    return elementAsDouble(in->init.data, 0);
  }

  // `v` as a number times a value plus a number.
  Affine affine(ValueId v) const {
    const Type &type = g_.type(v);
    if (const Node *n = madeBy(v, "affine"))
      return {n->operands[0], n->attrs.getFloat("scale"), n->attrs.getFloat("shift")};
    if (const Node *n = madeBy(v, "neg"))
      return {n->operands[0], -1, 0};
    const std::pair<const char *, Affine (*)(ValueId, double, bool)> binary[] = {
        {"add",
         [](ValueId of, double by, bool) {
           return Affine{of, 1, by};
         }},
        {"sub",
         [](ValueId of, double by, bool isFirst) {
           return isFirst ? Affine{of, -1, by} : Affine{of, 1, -by};
         }},
        {"mul",
         [](ValueId of, double by, bool) {
           return Affine{of, by, 0};
         }},
        {"div", [](ValueId of, double by, bool isFirst) {
           return isFirst || by == 0 ? Affine{} : Affine{of, 1 / by, 0};
         }}};
    for (const auto &[row, make] : binary)
      if (const Node *n = madeBy(v, row))
        for (size_t k : {0, 1})
          if (auto by = number(n->operands[k], type); by && g_.type(n->operands[1 - k]) == type)
            if (const Affine a = make(n->operands[1 - k], *by, k == 0); a.of)
              return a;
    return {v};
  }
  bool isOneMinus(ValueId v, ValueId x) const {
    const Affine a = affine(v);
    return a.of == x && a.scale == -1 && a.shift == 1;
  }

  // y = x / (a x + b), so x = b y / (1 - a y).
  std::optional<InverseFormula> odds(const Node &last) const {
    const ValueId x = last.operands[0];
    const Affine a = affine(last.operands[1]);
    if (a.of != x || a.scale == 0 || a.shift == 0 || !isFloat(g_.type(x).dtype))
      return std::nullopt;
    return InverseFormula{
        x, [a](Builder &b, ValueId y) {
          const ValueId rest = b.create("affine", {y}, {{"scale", -a.scale}, {"shift", 1.0}});
          return b.div(scaled(b, y, a.shift), rest);
        }};
  }

  std::optional<InverseFormula> logit(const Node &last) const {
    const Node *log = madeBy(last.operands[0], "log"), *rest = madeBy(last.operands[1], "log"),
               *rest1p = madeBy(last.operands[1], "log1p");
    if (!log || (!rest && !rest1p))
      return std::nullopt;
    const ValueId x = log->operands[0];
    const Affine minus = rest1p ? affine(rest1p->operands[0]) : Affine();
    if (rest ? !isOneMinus(rest->operands[0], x)
             : minus.of != x || minus.scale != -1 || minus.shift != 0)
      return std::nullopt;
    return InverseFormula{x, [](Builder &b, ValueId y) { return b.create("sigmoid", {y}); }};
  }

  // The operand of a softplus, which may be written as log(1 + exp(x)).
  ValueId softplusOf(ValueId v) const {
    if (const Node *n = madeBy(v, "softplus"))
      return n->operands[0];
    const Node *exp = nullptr;
    if (const Node *log1p = madeBy(v, "log1p"))
      exp = madeBy(log1p->operands[0], "exp");
    else if (const Node *log = madeBy(v, "log"))
      if (const Affine a = affine(log->operands[0]); a.scale == 1 && a.shift == 1)
        exp = madeBy(a.of, "exp");
    return exp ? exp->operands[0] : ValueId();
  }

  std::optional<InverseFormula> softplus(const Node &last) const {
    const ValueId x = last.operands[1];
    const Node *greater = madeBy(last.operands[0], "greater");
    auto most = greater ? number(greater->operands[1], g_.type(x)) : std::nullopt;
    if (!most)
      return std::nullopt;
    const auto timesX = [&](ValueId v) { // v / x; 0: it is no multiple of x
      const Affine a = v == x ? Affine{x} : affine(v);
      return a.of == x && a.shift == 0 ? a.scale : 0;
    };
    const double beta = timesX(greater->operands[0]);
    const Affine bent =
        softplusOf(last.operands[2]) ? Affine{last.operands[2]} : affine(last.operands[2]);
    const ValueId in = softplusOf(bent.of);
    if (!(beta > 0) || !in || bent.shift != 0 || timesX(in) != beta ||
        std::fabs(bent.scale * beta - 1) > 1e-6)
      return std::nullopt;
    // The result at the bend is larger than the operand by log(1 + exp(-most)) / beta.
    const double bend = (*most + std::log1p(std::exp(-*most))) / beta;
    return InverseFormula{x, [beta, bend](Builder &b, ValueId y) {
                            const Type number(b.type(y).dtype, {});
                            const ValueId isAbove = b.create("greater", {y, b.full(number, bend)});
                            const ValueId back = scaled(
                                b, b.create("softplus_inverse", {scaled(b, y, beta)}), 1 / beta);
                            return b.create("where", {isAbove, y, back});
                          }};
  }

  const Graph &g_;
  const bool areWeightsFixed_;
};

} // namespace

std::optional<InverseFormula> inverseFormulaOf(const Graph &g, NodeId last, bool areWeightsFixed) {
  const Node &n = g.node(last);
  if (n.phase != Phase::Forward || n.isStandIn() || n.numResults != 1)
    return std::nullopt;
  auto found = Formulas(g, areWeightsFixed).of(n);
  if (found && g.type(found->x) != g.type(n.firstResult))
    return std::nullopt;
  return found;
}

} // namespace isthmus
