// Running sums and products along an axis, and the recurrence that computes the gradient of a
// running product without a division.

#include "ir/ops/scan.h"
#include "ir/factors.h"
#include "ir/rank.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferScan(const InferContext &c) {
  const Type &x = c.operand(0);
  if (x.dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'; cast it first", x.str());
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  return TypeList{x};
}

llvm::Expected<TypeList> inferRecurrence(const InferContext &c) {
  if (llvm::Error e = c.expectFloat(0))
    return e;
  if (llvm::Error e = c.expectSame(0, 1))
    return e;
  if (c.has(2) && c.operand(2) != c.operand(0).with(DType::Bool))
    return c.error("expects cuts of type '{0}', got '{1}'", c.operand(0).with(DType::Bool).str(),
                   c.operand(2).str());
  return inferScan(c);
}

// `v` shifted by one place along the scan, or against it; a zero is shifted in.
ValueId shifted(Builder &b, ValueId v, const Attrs &attrs, bool along) {
  const Dims dims = b.type(v).dims;
  size_t a = size_t(axisFromFront(attrs.getInt("axis"), b.type(v).rank()));
  if (dims[a] == 0)
    return v;
  bool up = along != attrs.getBool("reverse");
  Ints none(dims.size(), 0), one = none, starts = none, limits(dims.begin(), dims.end());
  one[a] = 1;
  (up ? limits[a] : starts[a]) += up ? -1 : 1;
  ValueId rest = b.create("slice", {v}, {{"starts", starts}, {"limits", limits}});
  return b.create("pad", {rest}, {{"low", up ? one : none}, {"high", up ? none : one}});
}

Attrs flipped(Attrs attrs, const char *name) {
  bool was = attrs.getBool(name);
  attrs.set(name, !was);
  return attrs;
}

ValueList vjpCumsum(VjpContext &c) {
  return {c.b.create("cumsum", {c.grad(0)}, flipped(c.attrs, "reverse"))};
}

// dx_i = (x_0 ... x_{i-1}) (g_i + g_{i+1} x_{i+1} + g_{i+2} x_{i+1} x_{i+2} + ...). The second
// factor is a recurrence from the end: s_i = g_i + x_{i+1} s_{i+1}.
ValueList vjpCumprod(VjpContext &c) {
  Builder &b = c.b;
  ValueId g =
      c.attrs.getBool("exclusive") ? shifted(b, c.grad(0), c.attrs, /*along=*/false) : c.grad(0);
  Attrs before = c.attrs;
  before.set("exclusive", true);
  bool reverse = c.attrs.getBool("reverse");
  ValueId rest =
      b.create("recurrence", {g, c.operand(0)},
               {{"axis", c.attrs.getInt("axis")}, {"reverse", !reverse}, {"previous", true}});
  return {b.mul(b.create("cumprod", {c.operand(0)}, before), rest)};
}

// The gradient t of b is a recurrence in the opposite direction with the same factors. The factor
// a_i links two neighbouring places: its gradient is t at one times y at the other, or zero where
// the recurrence is cut.
ValueList vjpRecurrence(VjpContext &c) {
  ValueList out(c.numOperands());
  ValueList operands = {c.grad(0), c.operand(1)};
  if (c.numOperands() > 2)
    operands.push_back(c.operand(2));
  ValueId t = c.b.create("recurrence", operands, flipped(flipped(c.attrs, "reverse"), "previous"));
  if (c.wants(0))
    out[0] = t;
  if (!c.wants(1))
    return out;
  ValueId da = c.attrs.getBool("previous")
                   ? c.b.mul(shifted(c.b, t, c.attrs, /*along=*/false), c.result(0))
                   : c.b.mul(t, shifted(c.b, c.result(0), c.attrs, /*along=*/true));
  if (c.numOperands() > 2)
    da = c.b.create("where", {c.operand(2), c.b.zeros(Type(c.type(c.operand(1)).dtype, {})), da});
  out[1] = da;
  return out;
}

// --- Inverses

// The differences of neighbours. An exclusive sum leaves out the last element, so it has no
// inverse.
ValueId inverseCumsum(InverseContext &c, size_t) {
  ValueId y = c.results[0];
  return c.attrs.getBool("exclusive") ? ValueId()
                                      : c.b.sub(y, shifted(c.b, y, c.attrs, /*along=*/true));
}

// b_i = y_i - a_i y_{i-1}. There is no inverse in a, because y_{i-1} may be zero.
ValueId inverseRecurrence(InverseContext &c, size_t wanted) {
  if (wanted != 0)
    return ValueId();
  Builder &b = c.b;
  ValueId y = c.results[0], a = c.operands[1];
  bool previous =
      c.attrs.getBool("previous"); // factors and cuts are then those of the previous place
  ValueId more = b.mul(a, previous ? y : shifted(b, y, c.attrs, /*along=*/true));
  if (c.operands.size() > 2)
    more = b.create("where", {c.operands[2], b.zeros(Type(c.want.dtype, {})), more});
  if (previous)
    more = shifted(b, more, c.attrs, /*along=*/true);
  return b.sub(y, more);
}

} // namespace

void registerScanOps(OpRegistry &r) {
  AttrDef axis = {"axis", AttrKind::Int, int64_t(0), "the axis; negative ones count from the end"};
  AttrDef reverse = {"reverse", AttrKind::Bool, false, "whether to run from the end"};
  AttrDef exclusive = {"exclusive", AttrKind::Bool, false,
                       "whether to leave the element itself out"};
  struct {
    const char *name, *doc;
    ValueList (*vjp)(VjpContext &);
    ValueId (*inverse)(InverseContext &, size_t);
  } rows[] = {
      {"cumsum", "The sum of the elements up to each, along an axis.", vjpCumsum, inverseCumsum},
      {"cumprod", "The product of the elements up to each, along an axis.", vjpCumprod, nullptr}};
  for (auto [name, doc, vjp, inverse] : rows) {
    OpDef row;
    row.name = name;
    row.doc = doc;
    row.operands = "x";
    row.results = "y";
    row.attrs = {axis, exclusive, reverse};
    row.infer = inferScan;
    row.vjp = vjp;
    row.inverse = inverse;
    row.inPlace = {{0, 0}};
    row.factors = offAxisFactors;
    for (const char *rest :
         {"(f64[5])", "(f64[2, 3]) {axis = 1}", "(f64[2, 3]) {axis = -2, reverse = true}",
          "(f64[5]) {exclusive = true}",
          "(f64[2, 3, 2]) {axis = 1, exclusive = true, reverse = true}", "(i64[2, 3]) {axis = 1}",
          "(f64[3, 0]) {axis = 1}"})
      row.examples.push_back(row.name + rest);
    r.add(std::move(row));
  }
  r.add({{.name = "recurrence",
          .doc = "y_i = b_i + a_i y_{i-1} along an axis, beginning with y_0 = b_0. With `previous` "
                 "the factor is a_{i-1}. Where `cut` is true at the factor's position, the "
                 "recurrence begins anew: y_i = b_i.",
          .operands = "b a cut?",
          .results = "y",
          .attrs = {axis,
                    reverse,
                    {"previous", AttrKind::Bool, false,
                     "whether the factor is that of the previous position"}},
          .infer = inferRecurrence,
          .vjp = vjpRecurrence,
          .inverse = inverseRecurrence,
          .inPlace = {{0, 0}, {0, 1}},
          .factors = offAxisFactors,
          .examples = {"recurrence(f64[5], f64[5])",
                       "recurrence(f64[2, 3], f64[2, 3]) {axis = 1, previous = true}",
                       "recurrence(f64[2, 4], f64[2, 4]) {axis = -1, reverse = true}",
                       "recurrence(f64[4, 2], f64[4, 2]) {reverse = true, previous = true}",
                       "recurrence(f64[2, 5], f64[2, 5], bool[2, 5]) {axis = 1}",
                       "recurrence(f64[6], f64[6], bool[6]) {reverse = true, previous = true}"}}});
}

} // namespace isthmus
