// Exporters spell out the kinds of dropout that ONNX has no operator for (of channels, of whole
// samples, alpha dropout). The order of the ops depends on the exporter and the author:
//
//   x * (cast(u < keep) / keep)     x * floor(u + keep) / keep     where(u < p, 0, x / keep)
//
// So no fixed pattern is matched here. Every value is described by two linear functions of another
// value x, its base, and a random mask that selects one: on ? a x + c : a' x + c'. Sums, products
// and selections of such forms are again such forms. A value is dropout of v, a linear function of
// its base that is a value of the graph, if it is a constant where the mask is off and has the mean
// of v:
//
//   dropout: 0 where off, v / keep where on;
//   alpha dropout (Klambauer et al. 2017, section "Alpha Dropout"): a constant where off; if v has
//   mean 0 and variance 1, the result has the same mean and variance.
//
// The pass knows arithmetic ops by name, because it recognizes formulas, not properties of ops.

#include "passes/simplify/drawn_masks.h"

#include "ir/builder.h"
#include "ir/element.h"
#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

namespace isthmus {
namespace {

struct Line {
  double slope = 0, shift = 0;
  Line operator*(double by) const { return {slope * by, shift * by}; }
  Line operator+(Line other) const { return {slope + other.slope, shift + other.shift}; }
};

// `mask` is a random value: `on` applies where it is true, `off` where it is false. Without a mask
// `on` and `off` are equal; without a base their slopes are zero.
struct Form {
  ValueId base, mask;
  Line on, off;
  bool isNumber() const { return !base && !mask; }
};

bool isNear(double a, double b, double tolerance) {
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}

// The number of an input whose elements are all equal; none for other inputs.
std::optional<double> numberIn(const Input &in) {
  if (in.kind != InputKind::Const)
    return std::nullopt;
  if (in.init.kind == Initializer::Kind::Fill)
    return in.init.args.getFloat("value");
  const Tensor &t = in.init.data;
  if (in.init.kind != Initializer::Kind::Data || !t.data || t.type.elements() == 0)
    return std::nullopt;
  size_t size = size_t(t.bytes()) / size_t(t.type.elements());
  if (memcmp(t.data, t.data + size, size_t(t.bytes()) - size) != 0)
    return std::nullopt;
  return elementAsDouble(t, 0);
}

class Finder {
public:
  explicit Finder(const Graph &g) : g_(g), forms_(g.numValues()) {
    for (const Input &in : g.inputs())
      if (auto number = numberIn(in))
        forms_[in.value.index] = numberForm(*number);
      else
        forget(in.value);
  }

  // Visits the next node. Returns the value that its result equals in evaluation, or null.
  ValueId isOf(NodeId id) {
    const Node &n = g_.node(id);
    for (uint32_t i = 0; i < n.numResults; ++i)
      forget(n.result(i));
    auto form = n.numResults == 1 ? formOf(n) : std::nullopt;
    if (!form)
      return {};
    ValueId y = n.firstResult;
    if (form->base && form->mask)
      if (ValueId v = droppedFrom(*form, y))
        return v; // readers of y use y as their base
    forms_[y.index] = *form;
    if (form->base && !form->mask)
      linesOf_[form->base].push_back(y);
    return {};
  }

private:
  static Form numberForm(double v) { return {{}, {}, {0, v}, {0, v}}; }
  void forget(ValueId v) { forms_[v.index] = {v, {}, {1, 0}, {1, 0}}; }
  const Form &form(const Node &n, size_t operand) const {
    return forms_[n.operands[operand].index];
  }

  std::optional<Form> formOf(const Node &n);
  std::optional<Form> sum(const Form &a, const Form &b, double times);
  std::optional<Form> product(const Form &a, const Form &b);
  std::optional<Form> compared(const Node &n);
  std::optional<Form> floored(const Node &n);
  std::optional<Form> moved(const Node &n);
  std::optional<Form> chosen(const Form &which, const Form &a, const Form &b);
  Form drawn(ValueId mask, double share);
  const Node *drawOf(const Form &f) const;
  ValueId droppedFrom(Form f, ValueId y) const;

  const Graph &g_;
  std::vector<Form> forms_;              // by value
  llvm::DenseMap<ValueId, double> keep_; // by mask: the probability that it is true
  llvm::DenseMap<ValueId, llvm::SmallVector<ValueId, 2>> linesOf_; // values without a mask, by base
};

Form scaled(Form f, double scale, double shift) {
  Line more = {0, shift};
  return {f.base, f.mask, f.on * scale + more, f.off * scale + more};
}

// Sets `out` to the one of a and b that is not null; false if they are two different values.
bool merge(ValueId a, ValueId b, ValueId &out) {
  out = a ? a : b;
  return !a || !b || a == b;
}

std::optional<Form> Finder::sum(const Form &a, const Form &b, double times) {
  Form f;
  if (!merge(a.base, b.base, f.base) || !merge(a.mask, b.mask, f.mask))
    return std::nullopt;
  f.on = a.on + b.on * times;
  f.off = a.off + b.off * times;
  return f;
}

std::optional<Form> Finder::product(const Form &a, const Form &b) {
  if (a.base && b.base)
    return std::nullopt;
  const Form &line = a.base ? a : b, &number = a.base ? b : a;
  Form f;
  f.base = line.base;
  if (!merge(a.mask, b.mask, f.mask))
    return std::nullopt;
  f.on = line.on * number.on.shift;
  f.off = line.off * number.off.shift;
  return f;
}

std::optional<Form> Finder::chosen(const Form &which, const Form &a, const Form &b) {
  bool isMask = which.mask && !which.base && which.on.shift != which.off.shift;
  Form f;
  f.mask = which.mask;
  if (!isMask || (a.mask && a.mask != f.mask) || (b.mask && b.mask != f.mask) ||
      !merge(a.base, b.base, f.base))
    return std::nullopt;
  f.on = which.on.shift != 0 ? a.on : b.on;
  f.off = which.off.shift != 0 ? a.off : b.off;
  return f;
}

// --- Masks

Form Finder::drawn(ValueId mask, double share) {
  keep_[mask] = share;
  return {{}, mask, {0, 1}, {0, 0}};
}

// The `uniform` node that makes the form's base, or null.
const Node *Finder::drawOf(const Form &f) const {
  if (!f.base || f.mask || f.on.slope == 0)
    return nullptr;
  NodeId def = g_.value(f.base).def;
  const Node *n = def ? &g_.node(def) : nullptr;
  return n && n->op->name == "uniform" ? n : nullptr;
}

// A random number compared with a constant. The probability that they are equal is taken as zero.
std::optional<Form> Finder::compared(const Node &n) {
  bool less = llvm::StringRef(n.op->name).startswith("less");
  const Form *draw = &form(n, 0), *limit = &form(n, 1);
  if (!drawOf(*draw)) {
    std::swap(draw, limit);
    less = !less;
  }
  const Node *by = drawOf(*draw);
  if (!by || !limit->isNumber())
    return std::nullopt;
  double at = (limit->on.shift - draw->on.shift) / draw->on.slope;
  if (draw->on.slope < 0)
    less = !less;
  double low = by->attrs.getFloat("low"), high = by->attrs.getFloat("high");
  if (!(low < high))
    return std::nullopt;
  double below = std::clamp((at - low) / (high - low), 0.0, 1.0);
  return drawn(n.firstResult, less ? below : 1 - below);
}

// floor(u + keep), for u in [0, 1).
std::optional<Form> Finder::floored(const Node &n) {
  const Form &f = form(n, 0);
  const Node *by = drawOf(f);
  if (!by || f.on.slope != 1)
    return std::nullopt;
  double low = by->attrs.getFloat("low"), high = by->attrs.getFloat("high");
  bool fits = low == 0 && high == 1 && f.on.shift >= 0 && f.on.shift <= 1;
  return fits ? std::optional<Form>(drawn(n.firstResult, f.on.shift)) : std::nullopt;
}

// None if the form has a base: the op would round its elements or move them.
std::optional<Form> withoutBase(const Form &f) {
  return f.base ? std::nullopt : std::optional<Form>(f);
}

// A moved mask is another mask with the same probability.
std::optional<Form> Finder::moved(const Node &n) {
  Form f = form(n, 0);
  if (f.base)
    return std::nullopt;
  if (f.mask) {
    double share = keep_.lookup(f.mask);
    keep_[n.firstResult] = share;
    f.mask = n.firstResult;
  }
  return f;
}

// --- Rows

std::optional<Form> Finder::formOf(const Node &n) {
  enum Kind {
    Other,
    Full,
    Affine,
    Neg,
    Add,
    Sub,
    Mul,
    Div,
    Compare,
    Floor,
    Not,
    Where,
    Cast,
    Reshape,
    Same
  };
  Kind kind = llvm::StringSwitch<Kind>(n.op->name)
                  .Case("full", Full)
                  .Case("affine", Affine)
                  .Case("neg", Neg)
                  .Case("add", Add)
                  .Case("sub", Sub)
                  .Case("mul", Mul)
                  .Case("div", Div)
                  .Cases("less", "less_equal", "greater", "greater_equal", Compare)
                  .Case("floor", Floor)
                  .Case("not", Not)
                  .Case("where", Where)
                  .Case("cast", Cast)
                  .Case("reshape", Reshape)
                  .Cases("broadcast", "identity", Same)
                  .Default(Other);
  DType to = g_.type(n.firstResult).dtype;
  if (!isFloat(to) && to != DType::Bool) // integers round
    return std::nullopt;
  switch (kind) {
  case Other:
    return std::nullopt;
  case Full:
    return numberForm(n.attrs.getFloat("value"));
  case Affine:
    return scaled(form(n, 0), n.attrs.getFloat("scale"), n.attrs.getFloat("shift"));
  case Neg:
    return scaled(form(n, 0), -1, 0);
  case Add:
    return sum(form(n, 0), form(n, 1), 1);
  case Sub:
    return sum(form(n, 0), form(n, 1), -1);
  case Mul:
    return product(form(n, 0), form(n, 1));
  case Div:
    if (!form(n, 1).isNumber() || form(n, 1).on.shift == 0)
      return std::nullopt;
    return scaled(form(n, 0), 1 / form(n, 1).on.shift, 0);
  case Compare:
    return compared(n);
  case Floor:
    return floored(n);
  case Not:
    return scaled(form(n, 0), -1, 1);
  case Where:
    return chosen(form(n, 0), form(n, 1), form(n, 2));
  case Cast:
    return isFloat(to) ? withoutBase(form(n, 0)) : std::nullopt;
  case Reshape:
    return moved(n);
  case Same:
    return withoutBase(form(n, 0));
  }
  llvm_unreachable("all kinds are above");
}

// --- Recognition

ValueId Finder::droppedFrom(Form f, ValueId y) const {
  double keep = keep_.lookup(f.mask);
  if (f.on.slope == 0) { // the mask drops where it is true
    std::swap(f.on, f.off);
    keep = 1 - keep;
  }
  if (f.off.slope != 0 || f.on.slope == 0 || keep <= 0)
    return {};
  // Constants in the file are rounded to the element type of the computation.
  DType type = g_.type(y).dtype;
  double tolerance = type == DType::F16 || type == DType::BF16 ? 1e-2 : 1e-5;
  auto near = [&](double a, double b) { return isNear(a, b, tolerance); };
  auto isDropout = [&](ValueId v, Line line) {
    if (g_.type(v).dtype != type)
      return false;
    double slope = f.on.slope / line.slope; // as a function of v
    double on = f.on.shift - slope * line.shift, off = f.off.shift;
    if (off == 0)
      return near(on, 0) && near(slope * keep, 1);
    double variance = keep * slope * slope + keep * (1 - keep) * (on - off) * (on - off);
    return near(keep * on + (1 - keep) * off, 0) && near(variance, 1) && slope > 0;
  };
  auto lines = linesOf_.find(f.base);
  if (lines != linesOf_.end())
    for (ValueId v : llvm::reverse(lines->second))
      if (forms_[v.index].on.slope != 0 && isDropout(v, forms_[v.index].on))
        return v;
  return isDropout(f.base, {1, 0}) ? f.base : ValueId();
}

bool drawsNumbers(const Graph &g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).op->effect == Effect::Draws && !g.node(NodeId(i)).op->is(kDependsOnMode))
      return true;
  return false;
}

} // namespace

Graph withoutDrawnMasks(const Graph &g) {
  if (!drawsNumbers(g) || g.isRewritten())
    return g;
  llvm::BitVector named = namedValues(g);
  Finder finder(g);
  Rebuilder r(g);
  r.copyInputs();
  Builder b(r.to());
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    NodeId id(i);
    const Node &n = g.node(id);
    ValueId of = finder.isOf(id);
    if (!of) {
      r.copyNode(id);
      continue;
    }
    ValueId y = n.firstResult, now = r.map(of);
    r.standWith(b, id);
    if (r.to().type(now) != g.type(y))
      now = b.broadcastTo(now, g.type(y).dims);
    if (named.test(y.index) || !n.marks.empty()) {
      NodeId same = b.createNode("identity", {now}, {}, g.valueName(y));
      r.to().editNode(same).marks = n.marks;
      now = r.to().node(same).firstResult;
    }
    r.setMap(y, now);
  }
  return r.finish();
}

} // namespace isthmus
