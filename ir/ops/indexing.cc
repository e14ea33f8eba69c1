// Gathers and scatters whose indices are tensors: of single elements along an axis
// (`gather_elements`, as numpy.take_along_axis) and of slices by tuples of indices (`gather_nd`).
// Indices out of range read nothing and write nothing.

#include "ir/ops/indexing.h"
#include "ir/factors.h"
#include "ir/rank.h"

namespace isthmus {
namespace {

int64_t axisOf(const Attrs &attrs, const Type &t) {
  return axisFromFront(attrs.getInt("axis"), t.rank());
}

// --- Shape rules

// Expects `indices` to have the rank of `x`, and to be no longer than `x` on all axes but the
// indexed one.
llvm::Error checkElements(const InferContext &c) {
  const Type &x = c.operand(0), &indices = c.operand(1);
  if (llvm::Error e = c.expectInteger(1))
    return e;
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  bool fits = indices.rank() == x.rank();
  for (int64_t i = 0; fits && i < x.rank(); ++i)
    fits = i == *axis || indices.dims[i] <= x.dims[i];
  if (!fits)
    return c.error("expects indices of the rank of '{0}', and no longer but on axis {1}, got '{2}'",
                   x.str(), *axis, indices.str());
  if (x.dims[*axis] == 0 && indices.elements() > 0)
    return c.error("expects something to point at on axis {0} of '{1}'", *axis, x.str());
  return llvm::Error::success();
}

// The dims of the slices of `x` that the tuples in the last axis of `indices` select, one slice for
// each tuple.
llvm::Expected<Dims> slicesDims(const InferContext &c) {
  const Type &x = c.operand(0), &indices = c.operand(1);
  if (llvm::Error e = c.expectInteger(1))
    return e;
  if (llvm::Error e = c.expectRank(1, 1, 64))
    return e;
  int64_t batch = c.attrs.getInt("batch_dims"), depth = indices.dims.back();
  if (batch < 0 || batch >= indices.rank() || batch > x.rank())
    return c.error("expects 'batch_dims' in [0, {0}), got {1}",
                   std::min(indices.rank(), x.rank() + 1), batch);
  if (depth > x.rank() - batch)
    return c.error("expects tuples of at most {0} indices for '{1}', got '{2}'", x.rank() - batch,
                   x.str(), indices.str());
  llvm::ArrayRef<int64_t> from = x.dims, at = indices.dims;
  if (from.take_front(batch) != at.take_front(batch))
    return c.error("expects the first {0} dims of '{1}' and '{2}' to be equal", batch, x.str(),
                   indices.str());
  Dims dims(at.begin(), at.end() - 1);
  dims.append(from.begin() + batch + depth, from.end());
  return dims;
}

llvm::Expected<TypeList> inferGatherElements(const InferContext &c) {
  if (llvm::Error e = checkElements(c))
    return e;
  return TypeList{c.operand(0).with(c.operand(1).dims)};
}

llvm::Expected<TypeList> inferGatherNd(const InferContext &c) {
  auto dims = slicesDims(c);
  if (!dims)
    return dims.takeError();
  Type to = c.operand(0).with(*dims);
  if (c.operand(0).elements() == 0 && to.isValid() && to.elements() > 0)
    return c.error("expects something to take from, got '{0}'", c.operand(0).str());
  return TypeList{to};
}

// Indices that name each place of one axis once are a permutation; sorting them gives its inverse.
// Exporters write permutations of channels this way.
ValueId inverseGatherNd(InverseContext &c, size_t wanted) {
  if (wanted != 0 || c.b.type(c.results[0]) != c.want)
    return ValueId();
  const Type indices = c.b.type(c.operands[1]);
  if (indices.rank() != 2 || indices.dims[1] != 1 || indices.dims[0] != c.want.dims[0])
    return ValueId();
  ValueId list = c.b.reshape(c.operands[1], {indices.dims[0]});
  NodeId order = c.b.createNode("top_k", {list}, {{"k", indices.dims[0]}, {"largest", false}});
  return c.b.create("gather", {c.results[0], c.b.graph().node(order).result(1)});
}

// Checks a scatter whose updates must have type `want`.
llvm::Expected<TypeList> checkScatter(const InferContext &c, const Type &want) {
  const std::string &how = c.attrs.getString("reduction");
  if (how != "none" && how != "add" && how != "mul" && how != "max" && how != "min")
    return c.error("expects a reduction of none, add, mul, max or min, got '{0}'", how);
  if (how != "none" && c.operand(0).dtype == DType::Bool)
    return c.error("expects numbers to {0}, got '{1}'", how, c.operand(0).str());
  if (c.operand(2) != want)
    return c.error("expects updates of type '{0}', got '{1}'", want.str(), c.operand(2).str());
  return TypeList{c.operand(0)};
}

llvm::Expected<TypeList> inferScatterElements(const InferContext &c) {
  if (llvm::Error e = checkElements(c))
    return e;
  return checkScatter(c, c.operand(0).with(c.operand(1).dims));
}

llvm::Expected<TypeList> inferScatterNd(const InferContext &c) {
  auto dims = slicesDims(c);
  if (!dims)
    return dims.takeError();
  return checkScatter(c, c.operand(0).with(*dims));
}

// --- Gradients. Elements and slices share the rules, each with its own rows.

struct Rows {
  const char *gather, *scatter, *where; // `where`: the attribute that says what indices mean
  // For each update, the product of the other factors at its place; `data` has the data's factor
  // for each update.
  ValueId (*others)(VjpContext &, ValueId data);
};
ValueId othersAtElements(VjpContext &c, ValueId data);
ValueId othersAtSlices(VjpContext &c, ValueId data);
constexpr Rows kElements = {"gather_elements", "scatter_elements", "axis", othersAtElements};
constexpr Rows kSlices = {"gather_nd", "scatter_nd", "batch_dims", othersAtSlices};

class Indexed {
public:
  Indexed(VjpContext &c, const Rows &rows) : c_(c), rows_(rows) {}
  ValueId gather(ValueId from, bool lastOnly = false) const {
    return c_.b.create(rows_.gather, {from, c_.operand(1)},
                       {{rows_.where, c_.attrs.getInt(rows_.where)}, {"last_only", lastOnly}});
  }
  ValueId scatter(ValueId data, ValueId updates, const char *reduction) const {
    return c_.b.create(
        rows_.scatter, {data, c_.operand(1), updates},
        {{rows_.where, c_.attrs.getInt(rows_.where)}, {"reduction", std::string(reduction)}});
  }
  ValueId othersOf(ValueId data) const { return rows_.others(c_, data); }
  ValueId number(double v) const { return c_.b.full(Type(c_.type(c_.operand(0)).dtype, {}), v); }
  ValueId is(ValueId a, ValueId b) const { return c_.b.create("equal", {a, b}); }
  ValueId choose(ValueId which, ValueId a, ValueId b) const {
    return c_.b.create("where", {which, a, b});
  }
  ValueId asNumber(ValueId truth) const { return c_.b.cast(truth, c_.type(c_.operand(0)).dtype); }

private:
  VjpContext &c_;
  const Rows &rows_;
};

ValueList vjpGather(VjpContext &c, const Rows &rows) {
  ValueList out(2);
  if (c.wants(0))
    out[0] = Indexed(c, rows).scatter(c.b.zeros(c.type(c.operand(0))), c.grad(0),
                                      c.attrs.getBool("last_only") ? "none" : "add");
  return out;
}

ValueId othersAtElements(VjpContext &c, ValueId data) {
  const Type x = c.type(c.operand(0));
  int64_t axis = axisOf(c.attrs, x);
  ValueId places = placesOfElements(c.b, x, c.operand(1), axis);
  return productsOfOthers(c.b, places, axis, data, c.operand(2));
}
ValueId othersAtSlices(VjpContext &c, ValueId data) {
  const Type x = c.type(c.operand(0)), updates = c.type(c.operand(2));
  ValueId places = placesOfSlices(c.b, x, c.operand(1), c.attrs.getInt("batch_dims"));
  Dims flat = c.type(places).dims;
  flat.push_back(updates.elements() / (flat[0] * flat[1]));
  ValueId others = productsOfOthers(c.b, places, /*axis=*/1, c.b.reshape(data, flat),
                                    c.b.reshape(c.operand(2), flat));
  return c.b.reshape(others, updates.dims);
}

// The gradient of each factor is the product of the other factors.
ValueList vjpScatterMul(VjpContext &c, const Indexed &at) {
  Builder &b = c.b;
  ValueId data = c.operand(0), updates = c.operand(2), g = c.grad(0);
  ValueList out(3);
  if (c.wants(0))
    out[0] = b.mul(g, at.scatter(b.full(c.type(data), 1), updates, "mul"));
  if (!c.wants(2))
    return out;
  if (c.type(updates).elements() == 0)
    out[2] = b.zeros(c.type(updates));
  else
    out[2] = b.mul(at.gather(g), at.othersOf(at.gather(data)));
  return out;
}

// The gradient goes to the elements that equal the extremum, in equal shares.
ValueList vjpScatterExtremum(VjpContext &c, const Indexed &at) {
  ValueId y = c.result(0), zero = at.number(0);
  ValueId fromData = at.is(c.operand(0), y), fromUpdate = at.is(c.operand(2), at.gather(y));
  ValueId count = at.scatter(at.asNumber(fromData), at.asNumber(fromUpdate), "add");
  ValueId share = c.b.div(c.grad(0), count);
  ValueList out(3);
  if (c.wants(0))
    out[0] = at.choose(fromData, share, zero);
  if (c.wants(2))
    out[2] = at.choose(fromUpdate, at.gather(share), zero);
  return out;
}

ValueList vjpScatter(VjpContext &c, const Rows &rows) {
  Indexed at(c, rows);
  const std::string how = c.attrs.getString("reduction");
  if (how == "mul")
    return vjpScatterMul(c, at);
  if (how == "max" || how == "min")
    return vjpScatterExtremum(c, at);
  ValueList out(3);
  if (c.wants(0)) // replaced elements do not reach the result
    out[0] =
        how == "add" ? c.grad(0) : at.scatter(c.grad(0), c.b.zeros(c.type(c.operand(2))), "none");
  if (c.wants(2)) // of several updates of one place, only the last reaches the result
    out[2] = at.gather(c.grad(0), /*lastOnly=*/how == "none");
  return out;
}

ValueList vjpGatherElements(VjpContext &c) { return vjpGather(c, kElements); }
ValueList vjpGatherNd(VjpContext &c) { return vjpGather(c, kSlices); }
ValueList vjpScatterElements(VjpContext &c) { return vjpScatter(c, kElements); }
ValueList vjpScatterNd(VjpContext &c) { return vjpScatter(c, kSlices); }

// --- Chunks

// Elements are gathered from their own position and scattered to it, on all axes but the indexed
// one, so an axis that the indices have as long as x may be cut. On the indexed axis the indices of
// a gather may be cut, unless they are compared with each other.
Factors factorsOfElements(const OpCall &c) {
  Factors f = wholeFactors(c);
  const Dims &x = c.operands[0].dims, &indices = c.operands[1].dims;
  const size_t axis = size_t(axisOf(*c.attrs, c.operands[0]));
  const bool isGather = c.operands.size() == 2;
  for (uint32_t i = 0; i < x.size(); ++i) {
    if (i == axis ? isGather && !c.attrs->getBool("last_only") : x[i] == indices[i])
      for (Factors::Axes *axes : {&f.operands[1], isGather ? &f.results[0] : &f.operands[2]})
        (*axes)[i].factor = i;
    if (i != axis && x[i] == indices[i])
      f.operands[0][i].factor = f.results[0][i].factor = i;
  }
  return f;
}

// The axes before the tuples that the operands share, and those of the slices. The tuples of a
// gather may be cut, too, unless they are compared with each other.
Factors factorsOfSlices(const OpCall &c) {
  Factors f = wholeFactors(c);
  const size_t batch = size_t(c.attrs->getInt("batch_dims")),
               tuples = c.operands[1].dims.size() - 1, depth = size_t(c.operands[1].dims.back());
  const bool isGather = c.operands.size() == 2;
  Factors::Axes &data = f.operands[0], &indices = f.operands[1],
                &slices = isGather ? f.results[0] : f.operands[2];
  for (uint32_t i = 0; i < slices.size(); ++i) {
    const bool isTuple = i >= batch && i < tuples;
    if (isTuple && (!isGather || c.attrs->getBool("last_only")))
      continue;
    slices[i].factor = i;
    if (i < tuples)
      indices[i].factor = i;
    if (!isTuple)
      data[i < batch ? i : i - tuples + batch + depth].factor = i;
  }
  if (!isGather)
    f.results[0] = data;
  return f;
}

// --- Costs and bounds

Cost costGather(const OpCall &c) {
  return {0, double(2 * c.results[0].bytes() + c.operands[1].bytes())};
}
Cost costScatter(const OpCall &c) {
  return {double(c.operands[2].elements()),
          double(2 * c.results[0].bytes() + c.operands[1].bytes() + 2 * c.operands[2].bytes())};
}

std::optional<int64_t> boundElements(const OpCall &c, size_t operand) {
  if (operand != 1)
    return std::nullopt;
  return c.operands[0].dims[axisOf(*c.attrs, c.operands[0])];
}
std::optional<int64_t> boundNd(const OpCall &c, size_t operand) {
  if (operand != 1)
    return std::nullopt;
  int64_t batch = c.attrs->getInt("batch_dims"), least = INT64_MAX;
  for (int64_t i = 0; i < c.operands[1].dims.back(); ++i)
    least = std::min(least, c.operands[0].dims[batch + i]);
  return least;
}

} // namespace

void registerIndexingOps(OpRegistry &r) {
  AttrDef axis = {"axis", AttrKind::Int, int64_t(0), "the axis; negative ones count from the end"};
  AttrDef batch = {"batch_dims", AttrKind::Int, int64_t(0),
                   "the number of leading axes that the operands share"};
  AttrDef lastOnly = {
      "last_only", AttrKind::Bool, false,
      "whether only the last of equal indices reads its element, and the others give zero"};
  AttrDef reduction = {"reduction", AttrKind::String, std::string("none"),
                       "none: the update replaces the element, and the last of several updates "
                       "counts; add, mul, max, min: the update is combined with the element"};
  r.add({{.name = "gather_elements",
          .doc = "For each index, the operand's element at the index's own position, except on one "
                 "axis, where the index itself says the position. Negative indices count from the "
                 "end. An index out of range gives NaN, or zero for integers.",
          .operands = "x indices",
          .results = "y",
          .attrs = {axis, lastOnly},
          .infer = inferGatherElements,
          .vjp = vjpGatherElements,
          .cost = costGather,
          .factors = factorsOfElements,
          .indexBound = boundElements,
          .examples = {"gather_elements(f64[4, 3], i64[2, 3])",
                       "gather_elements(f64[2, 5, 3], i32[2, 4, 2]) {axis = -2}",
                       "gather_elements(f64[3, 4], i64[3, 6]) {axis = 1, last_only = true}",
                       "gather_elements(i64[5], i64[3])"}},
         {.name = "gather_nd",
          .doc = "For each tuple of indices, which the last axis of `indices` holds, the operand's "
                 "slice at that tuple. Negative indices count from the end. A tuple out of range "
                 "gives NaN, or zero for integers.",
          .operands = "x indices",
          .results = "y",
          .attrs = {batch, lastOnly},
          .traits = kIndexTuples,
          .infer = inferGatherNd,
          .vjp = vjpGatherNd,
          .inverse = inverseGatherNd,
          .inverseHolds = indicesArePermutation,
          .inverseKeepsBits = true,
          .cost = costGather,
          .factors = factorsOfSlices,
          .indexBound = boundNd,
          .examples = {"gather_nd(f64[3, 4], i64[5, 2])", "gather_nd(f64[4, 3, 2], i64[2, 3, 1])",
                       "gather_nd(f64[2, 3, 4, 2], i32[2, 5, 2]) {batch_dims = 1}",
                       "gather_nd(f64[4, 3], i64[6, 1]) {last_only = true}",
                       "gather_nd(f64[4, 3], i64[4, 1])", "gather_nd(bool[3, 4], i64[5, 2])"}},
         {.name = "scatter_elements",
          .doc = "The data, with each update written at its own position, except on one axis, "
                 "where its index says the position. Indices are read as in gather_elements; "
                 "updates with an index out of range are left out.",
          .operands = "data indices updates",
          .results = "y",
          .attrs = {axis, reduction},
          .infer = inferScatterElements,
          .vjp = vjpScatterElements,
          .cost = costScatter,
          .inPlace = {{0, 0}},
          .factors = factorsOfElements,
          .indexBound = boundElements,
          .examples = {"scatter_elements(f64[4, 3], i64[2, 3], f64[2, 3])",
                       "scatter_elements(f64[2, 4, 3], i32[2, 5, 2], f64[2, 5, 2]) {axis = -2}",
                       "scatter_elements(f64[3, 4], i64[3, 6], f64[3, 6]) {axis = 1, reduction = "
                       "add}",
                       "scatter_elements(f64[4], i64[5], f64[5]) {reduction = mul}",
                       "scatter_elements(f64[4], i64[5], f64[5]) {reduction = max}",
                       "scatter_elements(f64[4], i64[5], f64[5]) {reduction = min}",
                       "scatter_elements(bool[4], i64[2], bool[2])"}},
         {.name = "scatter_nd",
          .doc = "The data, with each slice of the updates written at its tuple of indices. Tuples "
                 "are read as in gather_nd; slices with a tuple out of range are left out.",
          .operands = "data indices updates",
          .results = "y",
          .attrs = {batch, reduction},
          .traits = kIndexTuples,
          .infer = inferScatterNd,
          .vjp = vjpScatterNd,
          .cost = costScatter,
          .inPlace = {{0, 0}},
          .factors = factorsOfSlices,
          .indexBound = boundNd,
          .examples = {"scatter_nd(f64[4, 3], i64[5, 1], f64[5, 3])",
                       "scatter_nd(f64[3, 4], i64[2, 3, 2], f64[2, 3]) {reduction = add}",
                       "scatter_nd(f64[2, 4], i32[2, 3, 1], f64[2, 3]) {batch_dims = 1}",
                       "scatter_nd(f64[3, 2], i64[4, 1], f64[4, 2]) {reduction = mul}",
                       "scatter_nd(f64[3, 2], i64[4, 1], f64[4, 2]) {reduction = max}",
                       "scatter_nd(f64[3, 2], i64[4, 1], f64[4, 2]) {reduction = min}",
                       "scatter_nd(i64[4], i64[2, 1], i64[2]) {reduction = add}"}}});
}

} // namespace isthmus
