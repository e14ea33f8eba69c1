// Ops that move elements without computing. Their gradients are ops of this family, so gradients of
// every order exist.

#include "ir/axis_cut.h"
#include "ir/factors.h"
#include "ir/ops/indexing.h"
#include "ir/ops/signs.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <numeric>

namespace isthmus {
namespace {

Ints ints(llvm::ArrayRef<int64_t> a) { return Ints(a.begin(), a.end()); }

// A copy reads and writes each byte once and computes nothing.
Cost copyOf(const Type &t) { return {0, 2 * double(t.bytes())}; }

llvm::Error expectLength(const InferContext &c, const char *attr, int64_t rank) {
  auto n = static_cast<int64_t>(c.attrs.getInts(attr).size());
  if (n == rank)
    return llvm::Error::success();
  return c.error("expects one entry per axis in '{0}', {1} for '{2}', got {3}", attr, rank,
                 c.operand(0).str(), n);
}

// --- full

llvm::Expected<TypeList> inferFull(const InferContext &c) {
  auto type = parseDType(c.attrs.getString("type"));
  if (!type)
    return c.error("expects a type such as f32 or i64, got '{0}'", c.attrs.getString("type"));
  return TypeList{Type(*type, c.attrs.getInts("dims"))};
}

Cost costFull(const OpCall &c) { return {0, double(c.results[0].bytes())}; }

Factors factorsOfResult(const OpCall &c) { return allButFactors(c, {}); }

// --- reshape

llvm::Expected<TypeList> inferReshape(const InferContext &c) {
  Type to = c.operand(0).with(c.attrs.getInts("dims"));
  if (!to.isValid() || to.elements() != c.operand(0).elements())
    return c.error("expects dims with as many elements as '{0}', {1}, got {2}", c.operand(0).str(),
                   c.operand(0).elements(), attrText(c.attrs.getInts("dims")));
  return TypeList{to};
}

ValueList vjpReshape(VjpContext &c) { return {c.b.reshape(c.grad(0), c.type(c.operand(0)).dims)}; }
ValueId inverseReshape(InverseContext &c, size_t) { return c.b.reshape(c.results[0], c.want.dims); }

// --- transpose

llvm::Expected<TypeList> inferTranspose(const InferContext &c) {
  const Ints &perm = c.attrs.getInts("perm");
  Ints sorted = perm;
  llvm::sort(sorted);
  bool fits = static_cast<int64_t>(perm.size()) == c.operand(0).rank();
  for (size_t i = 0; i < sorted.size(); ++i)
    fits &= sorted[i] == static_cast<int64_t>(i);
  if (!fits)
    return c.error("expects 'perm' to name each axis of '{0}' once, got {1}", c.operand(0).str(),
                   attrText(perm));
  Type to = c.operand(0);
  for (size_t i = 0; i < perm.size(); ++i)
    to.dims[i] = c.operand(0).dims[perm[i]];
  return TypeList{to};
}

ValueList vjpTranspose(VjpContext &c) {
  return {c.b.transpose(c.grad(0), inversePermutation(c.attrs.getInts("perm")))};
}
ValueId inverseTranspose(InverseContext &c, size_t) {
  return c.b.transpose(c.results[0], inversePermutation(c.attrs.getInts("perm")));
}
Factors factorsOfTranspose(const OpCall &c) {
  Factors f = allButFactors(c, {});
  const Ints &perm = c.attrs->getInts("perm");
  for (size_t i = 0; i < perm.size(); ++i)
    f.results[0][i].factor = uint32_t(perm[i]);
  return f;
}
Cost costTranspose(const OpCall &c) { return copyOf(c.results[0]); }

// --- broadcast

llvm::Expected<TypeList> inferBroadcast(const InferContext &c) {
  const Ints &dims = c.attrs.getInts("dims");
  const Type &x = c.operand(0);
  bool fits = x.dims.size() <= dims.size();
  for (size_t i = 0; fits && i < x.dims.size(); ++i)
    fits = x.dims[i] == 1 || x.dims[i] == dims[dims.size() - x.dims.size() + i];
  if (!fits)
    return c.error("expects dims that '{0}' broadcasts to, got {1}", x.str(), attrText(dims));
  return TypeList{x.with(dims)};
}

ValueList vjpBroadcast(VjpContext &c) { return {c.b.sumTo(c.grad(0), c.type(c.operand(0)).dims)}; }
// Takes the first of the repeated elements.
ValueId inverseBroadcast(InverseContext &c, size_t) {
  const Dims dims = c.b.type(c.results[0]).dims;
  size_t lead = dims.size() - c.want.dims.size();
  Ints limits = ints(dims);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t size = i < lead ? 1 : c.want.dims[i - lead];
    if (size > dims[i]) // an empty result holds no copy
      return ValueId();
    limits[i] = size;
  }
  ValueId first = c.results[0];
  if (limits != ints(dims))
    first = c.b.create("slice", {first}, {{"starts", Ints(dims.size(), 0)}, {"limits", limits}});
  return c.b.reshape(first, c.want.dims);
}
Cost costBroadcast(const OpCall &c) {
  return {0, double(c.operands[0].bytes() + c.results[0].bytes())};
}

// --- slice

Ints stepsOf(const Attrs &attrs) {
  const Ints &steps = attrs.getInts("steps");
  return steps.empty() ? Ints(attrs.getInts("starts").size(), 1) : steps;
}

llvm::Expected<TypeList> inferSlice(const InferContext &c) {
  const Type &x = c.operand(0);
  const Ints &starts = c.attrs.getInts("starts"), &limits = c.attrs.getInts("limits");
  for (const char *name : {"starts", "limits"})
    if (llvm::Error e = expectLength(c, name, x.rank()))
      return e;
  if (!c.attrs.getInts("steps").empty())
    if (llvm::Error e = expectLength(c, "steps", x.rank()))
      return e;
  Ints steps = stepsOf(c.attrs);
  Type to = x;
  for (size_t i = 0; i < steps.size(); ++i) {
    int64_t start = starts[i], limit = limits[i], step = steps[i], size = x.dims[i];
    if (step == 0 || step < -INT64_MAX)
      return c.error("expects steps other than 0, got {0} on axis {1}", step, i);
    if (step > 0) {
      if (start < 0 || limit < start || limit > size)
        return c.error(
            "expects 0 <= start <= limit <= {0} on axis {1} of '{2}', got start {3} and limit {4}",
            size, i, x.str(), start, limit);
      to.dims[i] = limit == start ? 0 : (limit - start - 1) / step + 1;
    } else {
      if (limit < -1 || start < limit || start >= size)
        return c.error("expects -1 <= limit <= start < {0} on axis {1} of '{2}', as the step is "
                       "negative, got start "
                       "{3} and limit {4}",
                       size, i, x.str(), start, limit);
      to.dims[i] = limit == start ? 0 : (start - limit - 1) / -step + 1;
    }
  }
  return TypeList{to};
}

ValueId sliceOf(Builder &b, ValueId x, Ints starts, Ints limits, Ints steps = {}) {
  return b.create(
      "slice", {x},
      {{"starts", std::move(starts)}, {"limits", std::move(limits)}, {"steps", std::move(steps)}});
}

// `x` reversed along some axes.
ValueId reverse(Builder &b, ValueId x, const std::vector<bool> &axes) {
  if (!llvm::is_contained(axes, true))
    return x;
  const Dims &dims = b.type(x).dims;
  Ints starts(dims.size(), 0), limits = ints(dims), steps(dims.size(), 1);
  for (size_t i = 0; i < dims.size(); ++i)
    if (axes[i]) {
      starts[i] = dims[i] - 1;
      limits[i] = -1;
      steps[i] = -1;
    }
  return sliceOf(b, x, starts, limits, steps);
}

ValueId padZeros(Builder &b, ValueId x, const Ints &low, const Ints &high) {
  auto nothing = [](const Ints &l) { return llvm::all_of(l, [](int64_t i) { return i == 0; }); };
  if (nothing(low) && nothing(high))
    return x;
  return b.create("pad", {x}, {{"low", low}, {"high", high}});
}

// Puts step - 1 zeros after each element on one axis: a reshape, a pad, a reshape.
ValueId spread(Builder &b, ValueId x, size_t axis, int64_t step) {
  Dims dims = b.type(x).dims, apart = dims;
  apart.insert(apart.begin() + axis + 1, 1);
  Ints low(apart.size(), 0), high(apart.size(), 0);
  high[axis + 1] = step - 1;
  dims[axis] *= step;
  return b.reshape(padZeros(b, b.reshape(x, apart), low, high), dims);
}

// The gradient of a slice is zero outside of the slice: put the gradient in ascending order, spread
// it by the step, and pad it with zeros.
ValueList vjpSlice(VjpContext &c) {
  const Type &x = c.type(c.operand(0));
  ValueId g = c.grad(0);
  Ints starts = c.attrs.getInts("starts"), steps = stepsOf(c.attrs);
  if (c.type(g).elements() == 0)
    return {c.b.zeros(x)};
  std::vector<bool> descending(steps.size());
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] < 0) {
      descending[i] = true;
      starts[i] += (c.type(g).dims[i] - 1) * steps[i];
      steps[i] = -steps[i];
    }
  g = reverse(c.b, g, descending);
  Ints high(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i] > 1 && c.type(g).dims[i] > 1) {
      g = spread(c.b, g, i, steps[i]);
      g = sliceAxis(c.b, g, i, 0, std::min(c.type(g).dims[i], x.dims[i] - starts[i]));
    }
    high[i] = x.dims[i] - starts[i] - c.type(g).dims[i];
  }
  return {padZeros(c.b, g, starts, high)};
}

// A slice of all elements only reverses some axes, so it is its own inverse.
ValueId inverseSlice(InverseContext &c, size_t) {
  return c.b.type(c.results[0]) == c.want ? c.b.create("slice", {c.results[0]}, c.attrs)
                                          : ValueId();
}

// The axes that a slice or a padding leaves alone; those of another size are cut by it.
Factors factorsOfUnmoved(const OpCall &c) {
  llvm::SmallVector<int64_t, 4> whole;
  for (int64_t i = 0; i < c.results[0].rank(); ++i)
    if (c.operands[0].dims[i] != c.results[0].dims[i])
      whole.push_back(i);
  return allButFactors(c, whole);
}
Factors factorsOfSlice(const OpCall &c) {
  Factors f = factorsOfUnmoved(c);
  const Ints steps = stepsOf(*c.attrs);
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i] < 0)
      f.operands[0][i] = f.results[0][i] = {};
  return f;
}

// --- pad

llvm::Expected<TypeList> inferPad(const InferContext &c) {
  const Type &x = c.operand(0);
  const std::string &mode = c.attrs.getString("mode");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return c.error("expects a mode of constant, reflect, edge or wrap, got '{0}'", mode);
  for (const char *name : {"low", "high"})
    if (llvm::Error e = expectLength(c, name, x.rank()))
      return e;
  Type to = x;
  for (size_t i = 0; i < to.dims.size(); ++i)
    for (int64_t pad : {c.attrs.getInts("low")[i], c.attrs.getInts("high")[i]}) {
      int64_t most = mode == "reflect"                  ? std::max<int64_t>(x.dims[i] - 1, 0)
                     : mode == "wrap"                   ? x.dims[i]
                     : mode == "edge" && x.dims[i] == 0 ? 0
                                                        : INT64_MAX;
      if (pad < 0 || pad > most || __builtin_add_overflow(to.dims[i], pad, &to.dims[i]))
        return c.error(
            "expects padding of axis {0} of '{1}' in mode {2} to be in [0, {3}], got {4}", i,
            x.str(), mode, most, pad);
    }
  return TypeList{to};
}

// Adds the gradient of the padding on one axis to the elements that the padding copies.
ValueId foldAxis(Builder &b, ValueId g, size_t axis, int64_t size, int64_t low, int64_t high,
                 llvm::StringRef mode) {
  size_t rank = b.type(g).dims.size();
  auto place = [&](ValueId part, int64_t at) {
    Ints before(rank, 0), after(rank, 0);
    before[axis] = at;
    after[axis] = size - at - b.type(part).dims[axis];
    return padZeros(b, part, before, after);
  };
  std::vector<bool> here(rank);
  here[axis] = true;
  auto collapsed = [&](ValueId part) {
    return mode == "reflect" ? reverse(b, part, here)
           : mode == "edge"  ? b.sum(part, {static_cast<int64_t>(axis)}, /*keepDims=*/true)
                             : part;
  };
  ValueId dx = sliceAxis(b, g, axis, low, low + size);
  if (low > 0)
    dx = b.add(dx, place(collapsed(sliceAxis(b, g, axis, 0, low)), mode == "reflect" ? 1
                                                                   : mode == "edge"  ? 0
                                                                                     : size - low));
  if (high > 0)
    dx = b.add(dx, place(collapsed(sliceAxis(b, g, axis, low + size, low + size + high)),
                         mode == "reflect" ? size - 1 - high
                         : mode == "edge"  ? size - 1
                                           : 0));
  return dx;
}

ValueList vjpPad(VjpContext &c) {
  const Ints low = c.attrs.getInts("low"), high = c.attrs.getInts("high");
  const Type &x = c.type(c.operand(0));
  ValueId g = c.grad(0);
  if (c.attrs.getString("mode") == "constant") {
    Ints limits = low;
    for (size_t i = 0; i < limits.size(); ++i)
      limits[i] += x.dims[i];
    return {c.type(g) == x ? g : sliceOf(c.b, g, low, limits)};
  }
  for (size_t i = 0; i < low.size(); ++i)
    g = foldAxis(c.b, g, i, x.dims[i], low[i], high[i], c.attrs.getString("mode"));
  return {g};
}

ValueId inversePad(InverseContext &c, size_t) {
  Ints low = c.attrs.getInts("low"), limits = low;
  for (size_t i = 0; i < limits.size(); ++i)
    limits[i] += c.want.dims[i];
  return sliceOf(c.b, c.results[0], low, limits);
}

// --- concat and split

llvm::Expected<TypeList> inferConcat(const InferContext &c) {
  if (c.operands.empty())
    return c.error("expects 1 operand or more, got none");
  auto axis = c.axis(c.attrs.getInt("axis"), c.operand(0).rank());
  if (!axis)
    return axis.takeError();
  Type to = c.operand(0);
  for (const Type &t : c.operands.drop_front()) {
    Type same = t;
    if (t.rank() == to.rank())
      same.dims[*axis] = c.operand(0).dims[*axis];
    if (same != c.operand(0))
      return c.error("expects operands that agree in all but axis {0}, got '{1}' and '{2}'", *axis,
                     c.operand(0).str(), t.str());
    if (__builtin_add_overflow(to.dims[*axis], t.dims[*axis], &to.dims[*axis]))
      return c.error("would give a result whose size overflows 64 bits");
  }
  return TypeList{to};
}

int64_t axisOf(const Attrs &attrs, const Type &t) {
  return axisFromFront(attrs.getInt("axis"), t.rank());
}

ValueList vjpConcat(VjpContext &c) {
  int64_t axis = axisOf(c.attrs, c.type(c.result(0))), at = 0;
  ValueList out(c.numOperands());
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t size = c.type(c.operand(i)).dims[axis];
    if (c.wants(i))
      out[i] = sliceAxis(c.b, c.grad(0), axis, at, at + size);
    at += size;
  }
  return out;
}

// The types of the operands before the wanted one give its offset, so those operands must be known.
ValueId inverseConcat(InverseContext &c, size_t wanted) {
  int64_t axis = axisOf(c.attrs, c.want), at = 0;
  for (size_t i = 0; i < wanted; ++i) {
    if (!c.operands[i])
      return ValueId();
    at += c.b.type(c.operands[i]).dims[axis];
  }
  return sliceAxis(c.b, c.results[0], axis, at, at + c.want.dims[axis]);
}

Cost costFirstResult(const OpCall &c) { return copyOf(c.results[0]); }
Cost costFirstOperand(const OpCall &c) { return copyOf(c.operands[0]); }

llvm::Expected<TypeList> inferSplit(const InferContext &c) {
  auto axis = c.axis(c.attrs.getInt("axis"), c.operand(0).rank());
  if (!axis)
    return axis.takeError();
  TypeList out;
  int64_t left = c.operand(0).dims[*axis];
  for (int64_t size : c.attrs.getInts("sizes")) {
    if (size < 0 || size > left) {
      left = -1;
      break;
    }
    left -= size;
    out.push_back(c.operand(0));
    out.back().dims[*axis] = size;
  }
  if (left != 0 || out.empty())
    return c.error("expects sizes that add up to {0}, axis {1} of '{2}', got {3}",
                   c.operand(0).dims[*axis], *axis, c.operand(0).str(),
                   attrText(c.attrs.getInts("sizes")));
  return out;
}

ValueList vjpSplit(VjpContext &c) {
  llvm::SmallVector<ValueId, 4> grads;
  for (size_t i = 0; i < c.attrs.getInts("sizes").size(); ++i)
    grads.push_back(c.grad(i));
  return {grads.size() == 1 ? grads[0]
                            : c.b.create("concat", grads, {{"axis", c.attrs.getInt("axis")}})};
}

ValueId inverseSplit(InverseContext &c, size_t) {
  return c.results.size() == 1
             ? c.results[0]
             : c.b.create("concat", c.results, {{"axis", c.attrs.getInt("axis")}});
}

// --- gather and scatter_rows

llvm::Expected<TypeList> inferGather(const InferContext &c) {
  if (llvm::Error e = c.expectInteger(1))
    return e;
  auto axis = c.axis(c.attrs.getInt("axis"), c.operand(0).rank());
  if (!axis)
    return axis.takeError();
  const Dims &x = c.operand(0).dims, &indices = c.operand(1).dims;
  Dims dims(x.begin(), x.begin() + *axis);
  dims.append(indices.begin(), indices.end());
  dims.append(x.begin() + *axis + 1, x.end());
  Type to = c.operand(0).with(dims);
  if (c.operand(0).dims[*axis] == 0 && to.isValid() && to.elements() > 0)
    return c.error("expects something to take from on axis {0} of '{1}'", *axis,
                   c.operand(0).str());
  return TypeList{to};
}

ValueList vjpGather(VjpContext &c) {
  const Type &x = c.type(c.operand(0));
  int64_t axis = axisOf(c.attrs, x);
  ValueList out(2);
  if (c.wants(0))
    out[0] = c.b.create("scatter_rows", {c.operand(1), c.grad(0)},
                        {{"axis", axis}, {"size", x.dims[axis]}});
  return out;
}

// If the indices name each place of the axis once, the gather is a permutation; sorting the indices
// gives its inverse.
ValueId inverseGather(InverseContext &c, size_t wanted) {
  if (wanted != 0)
    return ValueId();
  int64_t axis = axisOf(c.attrs, c.want);
  const Type &indices = c.b.type(c.operands[1]);
  if (indices.rank() != 1 || indices.dims[0] != c.want.dims[axis])
    return ValueId();
  NodeId order =
      c.b.createNode("top_k", {c.operands[1]}, {{"k", indices.dims[0]}, {"largest", false}});
  return c.b.create("gather", {c.results[0], c.b.graph().node(order).result(1)}, {{"axis", axis}});
}

// The axes of the indices, and those of x that stay.
Factors factorsOfGather(const OpCall &c) {
  Factors f = allButFactors(c, {});
  const size_t axis = size_t(axisOf(*c.attrs, c.operands[0])), rank = c.operands[1].dims.size();
  const uint32_t rest = uint32_t(c.results[0].dims.size());
  f.operands[0][axis] = {};
  for (size_t i = 0; i < rank; ++i)
    f.operands[1][i].factor = rest + uint32_t(i);
  for (size_t i = 0; i < f.results[0].size(); ++i)
    f.results[0][i].factor = uint32_t(i < axis          ? i
                                      : i < axis + rank ? rest + i - axis
                                                        : i - rank + 1);
  return f;
}
// Rows are summed over the axes of the indices, in the order of the rows. Cut along an axis inside
// of another one, they are added in another order.
Factors factorsOfScatterRows(const OpCall &c) {
  Factors f = wholeFactors(c);
  const Dims &indices = c.operands[0].dims;
  const size_t axis = size_t(axisOf(*c.attrs, c.results[0])), rank = indices.size();
  for (size_t i = 0; i < f.operands[1].size(); ++i)
    f.operands[1][i].factor = uint32_t(i);
  const size_t outermost =
      size_t(llvm::find_if(indices, [](int64_t d) { return d != 1; }) - indices.begin());
  for (size_t i = 0; i < rank; ++i) {
    f.operands[0][i].factor = uint32_t(axis + i);
    if (i > outermost)
      f.rounding.push_back(uint32_t(axis + i));
  }
  for (size_t i = 0; i < f.results[0].size(); ++i)
    if (i != axis)
      f.results[0][i].factor = uint32_t(i < axis ? i : i + rank - 1);
  if (c.operands.size() > 2) { // the base is added once: its axes and no others may be cut
    f.operands[2] = f.results[0];
    for (size_t i = 0; i < rank; ++i)
      f.operands[0][i] = f.operands[1][axis + i] = {};
  }
  return f;
}

Cost costGather(const OpCall &c) {
  Cost cost = copyOf(c.results[0]);
  cost.bytes += double(c.operands[1].bytes());
  return cost;
}

std::optional<int64_t> boundGather(const OpCall &c, size_t operand) {
  if (operand != 1)
    return std::nullopt;
  return c.operands[0].dims[axisOf(*c.attrs, c.operands[0])];
}

llvm::Expected<TypeList> inferScatterRows(const InferContext &c) {
  if (llvm::Error e = c.expectInteger(0))
    return e;
  const Type &indices = c.operand(0), &rows = c.operand(1);
  if (rows.dtype == DType::Bool)
    return c.error("expects 'rows' of numbers, got '{0}'", rows.str());
  int64_t size = c.attrs.getInt("size"), rank = rows.rank() - indices.rank() + 1;
  if (rank < 1)
    return c.error("expects 'rows' of the rank of 'indices' or more, got '{0}' and '{1}'",
                   rows.str(), indices.str());
  auto axis = c.axis(c.attrs.getInt("axis"), rank);
  if (!axis)
    return axis.takeError();
  if (llvm::makeArrayRef(rows.dims).slice(*axis, indices.dims.size()) !=
      llvm::makeArrayRef(indices.dims))
    return c.error(
        "expects 'rows' with the dims of 'indices' from axis {0} on, got '{1}' and '{2}'", *axis,
        rows.str(), indices.str());
  if (size < 0 || (size == 0 && indices.elements() > 0))
    return c.error("expects a size of 1 or more, got {0}", size);
  Dims dims(rows.dims.begin(), rows.dims.begin() + *axis);
  dims.push_back(size);
  dims.append(rows.dims.begin() + *axis + indices.rank(), rows.dims.end());
  if (c.has(2) && c.operand(2) != rows.with(dims))
    return c.error("expects a base of type '{0}', got '{1}'", rows.with(dims).str(),
                   c.operand(2).str());
  return TypeList{rows.with(dims)};
}

ValueList vjpScatterRows(VjpContext &c) {
  ValueList out(c.numOperands());
  if (c.wants(1))
    out[1] = c.b.create("gather", {c.grad(0), c.operand(0)},
                        {{"axis", axisOf(c.attrs, c.type(c.result(0)))}});
  if (c.wants(2))
    out[2] = c.grad(0);
  return out;
}

// The operands of a scatter_rows with the indices flattened to a list, and the rows' axes flattened
// likewise to one.
struct SparseRows {
  ValueId indices, rows;
  int64_t axis;

  SparseRows(Builder &b, const Node &n) : indices(n.operands[0]), rows(n.operands[1]) {
    Type i = b.type(indices), r = b.type(rows);
    axis = axisOf(n.attrs, b.type(n.result(0)));
    Dims flat(r.dims.begin(), r.dims.begin() + axis);
    flat.push_back(i.elements());
    flat.append(r.dims.begin() + axis + i.rank(), r.dims.end());
    indices = b.reshape(indices, {i.elements()});
    rows = b.reshape(rows, flat);
  }
};

// Concatenates the lists of two sparse sums. If `other` is no sparse sum, scatters the rows with
// `other` as their base.
ValueId sumWithScatterRows(Builder &b, NodeId id, ValueId other) {
  Graph &g = b.graph();
  const Node &n = g.node(id);
  NodeId otherId = g.value(other).def;
  const Node *o = otherId ? &g.node(otherId) : nullptr;
  if (n.operands.size() == 3) // `n` already has a base
    return b.add(n.result(0), other);
  bool bothSparse = o && o->op == n.op && o->operands.size() == 2 && o->attrs == n.attrs &&
                    b.type(o->operands[0]).dtype == b.type(n.operands[0]).dtype;
  if (!bothSparse)
    return b.create("scatter_rows", {n.operands[0], n.operands[1], other}, n.attrs);
  Attrs attrs = n.attrs;
  SparseRows first(b, *o), second(b, n);
  return b.create("scatter_rows",
                  {b.create("concat", {first.indices, second.indices}, {{"axis", int64_t(0)}}),
                   b.create("concat", {first.rows, second.rows}, {{"axis", first.axis}})},
                  attrs);
}

Cost costScatterRows(const OpCall &c) {
  return {double(c.operands[1].elements()),
          double(c.operands[0].bytes() + 2 * c.operands[1].bytes() + c.results[0].bytes())};
}

std::optional<int64_t> boundScatterRows(const OpCall &c, size_t operand) {
  return operand == 0 ? std::optional<int64_t>(c.attrs->getInt("size")) : std::nullopt;
}

// --- trilu

llvm::Expected<TypeList> inferTrilu(const InferContext &c) {
  if (llvm::Error e = c.expectRank(0, 2, 64))
    return e;
  return TypeList{c.operand(0)};
}

Factors factorsOfTrilu(const OpCall &c) {
  const int64_t rank = c.results[0].rank();
  return allButFactors(c, {rank - 2, rank - 1});
}
ValueList vjpTrilu(VjpContext &c) { return {c.b.create("trilu", {c.grad(0)}, c.attrs)}; }

// --- Rows

const AttrDef kAxis = {"axis", AttrKind::Int, int64_t(0),
                       "the axis; negative ones count from the end"};
const AttrDef kOneOfAxes = {kAxis.name, kAxis.kind, kAxis.byDefault, kAxis.doc, AxisRole::Axis};

std::vector<OpDef> movingRows() {
  return {
      {.name = "full",
       .doc = "A tensor that holds one value everywhere.",
       .operands = "",
       .results = "y",
       .attrs = {{"dims", AttrKind::IntList, {}, "its dimensions", AxisRole::Sizes},
                 {"type", AttrKind::String, std::string("f32"), "its element type"},
                 {"value", AttrKind::Float, 0.0, "the value"}},
       .infer = inferFull,
       .differentiable = Differentiable::ZeroGradient,
       .cost = costFull,
       .factors = factorsOfResult,
       .examples = {"full() {dims = [2, 3], type = f64, value = 0.5}",
                    "full() {dims = [], type = i64, value = -3.0}",
                    "full() {dims = [0, 2], type = f64}",
                    "full() {dims = [3], type = bool, value = 1.0}"}},
      {.name = "reshape",
       .doc = "The same elements in the same order, under other dimensions.",
       .operands = "x",
       .results = "y",
       .attrs = {{"dims",
                  AttrKind::IntList,
                  {},
                  "the new dimensions, with as many elements",
                  AxisRole::Sizes}},
       .traits = kView,
       .infer = inferReshape,
       .vjp = vjpReshape,
       .inverse = inverseReshape,
       .inverseKeepsBits = true,
       .sign = signOfOperands,
       .cuts = cutsOfReshape,
       .examples = {"reshape(f64[2, 6]) {dims = [3, 4]}", "reshape(f64[2, 3]) {dims = [6]}",
                    "reshape(f64[1, 1]) {dims = []}", "reshape(f64[0, 3]) {dims = [5, 0]}"}},
      {.name = "transpose",
       .doc = "The axes in another order: axis i of the result is axis perm[i] of the operand.",
       .operands = "x",
       .results = "y",
       .attrs = {{"perm", AttrKind::IntList, {}, "a permutation of the axes"}},
       .infer = inferTranspose,
       .vjp = vjpTranspose,
       .inverse = inverseTranspose,
       .inverseKeepsBits = true,
       .sign = signOfOperands,
       .cost = costTranspose,
       .factors = factorsOfTranspose,
       .examples = {"transpose(f64[3, 4]) {perm = [1, 0]}",
                    "transpose(f64[2, 3, 4]) {perm = [2, 0, 1]}",
                    "transpose(f64[2, 3, 4]) {perm = [1, 0, 2]}",
                    "transpose(f64[2, 3, 4]) {perm = [0, 2, 1]}",
                    "transpose(f64[2, 3, 2, 3]) {perm = [0, 2, 1, 3]}",
                    "transpose(f64[]) {perm = []}", "transpose(i64[3, 2]) {perm = [1, 0]}",
                    "transpose(f64[37, 41]) {perm = [1, 0]}"}},
      {.name = "broadcast",
       .doc = "The operand repeated along new axes and axes of size one, by numpy's rule.",
       .operands = "x",
       .results = "y",
       .attrs = {{"dims", AttrKind::IntList, {}, "the dimensions of the result", AxisRole::Sizes}},
       .infer = inferBroadcast,
       .vjp = vjpBroadcast,
       .inverse = inverseBroadcast,
       .inverseKeepsBits = true,
       .sign = signOfOperands,
       .cost = costBroadcast,
       .factors = broadcastFactors,
       .examples = {"broadcast(f64[3]) {dims = [2, 3]}", "broadcast(f64[2, 1]) {dims = [2, 3]}",
                    "broadcast(f64[]) {dims = [2, 2]}",
                    "broadcast(f64[2, 1, 3]) {dims = [2, 2, 4, 3]}",
                    "broadcast(f64[1]) {dims = [0]}", "broadcast(f64[2, 3]) {dims = [2, 3]}"}},
      {.name = "slice",
       .doc = "The elements at start, start + step, ... before limit on each axis. With a negative "
              "step, start is the largest index taken, and limit lies below the smallest; it is -1 "
              "if index 0 may be taken.",
       .operands = "x",
       .results = "y",
       .attrs =
           {{"starts", AttrKind::IntList, {}, "the first index on each axis", AxisRole::EachAxis},
            {"limits",
             AttrKind::IntList,
             {},
             "the index before which to stop, on each axis",
             AxisRole::Limits},
            {"steps", AttrKind::IntList, Ints(), "the step on each axis; all ones if empty",
             AxisRole::EachAxis}},
       .infer = inferSlice,
       .vjp = vjpSlice,
       .inverse = inverseSlice,
       .inverseKeepsBits = true,
       .sign = signOfOperands,
       .cost = costFirstResult,
       .factors = factorsOfSlice,
       .examples = {"slice(f64[4, 5]) {starts = [1, 0], limits = [3, 5]}",
                    "slice(f64[7, 5]) {starts = [1, 0], limits = [7, 5], steps = [2, 3]}",
                    "slice(f64[6, 3]) {starts = [5, 2], limits = [-1, 0], steps = [-2, -1]}",
                    "slice(f64[6]) {starts = [4], limits = [0], steps = [-3]}",
                    "slice(f64[4]) {starts = [2], limits = [2]}",
                    "slice(f64[3, 4]) {starts = [1, 2], limits = [3, 3]}",
                    "slice(f64[]) {starts = [], limits = []}",
                    "slice(f64[3, 4]) {starts = [2, 0], limits = [-1, 4], steps = [-1, 1]}",
                    "slice(f64[5]) {starts = [1], limits = [4], steps = [7]}"}},
      {.name = "pad",
       .doc = "The operand with elements added before and after it on each axis: one value "
              "(constant), the operand mirrored at its border (reflect), its border repeated "
              "(edge), or the operand again from its other end (wrap).",
       .operands = "x",
       .results = "y",
       .attrs = {{"low",
                  AttrKind::IntList,
                  {},
                  "the number of elements added before, on each axis",
                  AxisRole::EachAxis},
                 {"high",
                  AttrKind::IntList,
                  {},
                  "the number of elements added after, on each axis",
                  AxisRole::EachAxis},
                 {"value", AttrKind::Float, 0.0, "the value added in mode constant"},
                 {"mode", AttrKind::String, std::string("constant"),
                  "constant, reflect, edge or wrap"}},
       .infer = inferPad,
       .vjp = vjpPad,
       .inverse = inversePad,
       .inverseKeepsBits = true,
       .cost = costBroadcast,
       .factors = factorsOfUnmoved,
       .examples = {"pad(f64[2, 3]) {low = [1, 0], high = [0, 2]}",
                    "pad(f64[3]) {low = [2], high = [1], value = 1.5}",
                    "pad(f64[2, 4]) {low = [1, 2], high = [0, 3], mode = reflect}",
                    "pad(f64[2, 3]) {low = [1, 0], high = [2, 2], mode = edge}",
                    "pad(f64[2, 4]) {low = [1, 3], high = [2, 4], mode = wrap}",
                    "pad(f64[2, 2, 2]) {low = [0, 1, 1], high = [1, 0, 1]}",
                    "pad(f64[3, 2]) {low = [0, 1], high = [0, 1]}",
                    "pad(f64[]) {low = [], high = []}", "pad(f64[0]) {low = [2], high = [1]}"}}};
}

std::vector<OpDef> joiningRows() {
  return {{.name = "concat",
           .doc = "The operands one after the other on an axis.",
           .operands = "xs...",
           .results = "y",
           .attrs = {kOneOfAxes},
           .infer = inferConcat,
           .vjp = vjpConcat,
           .inverse = inverseConcat,
           .inverseKeepsBits = true,
           .sign = signOfOperands,
           .cost = costFirstResult,
           .factors = offAxisFactors,
           .examples = {"concat(f64[2, 3], f64[1, 3]) {axis = 0}",
                        "concat(f64[2, 3], f64[2, 1], f64[2, 2]) {axis = -1}", "concat(f64[3])",
                        "concat(f64[2, 2, 2], f64[2, 1, 2]) {axis = 1}",
                        "concat(f64[0, 2], f64[2, 2])"}},
          {.name = "split",
           .doc = "The operand cut into parts on an axis.",
           .operands = "x",
           .results = "ys...",
           .attrs = {kOneOfAxes,
                     {"sizes",
                      AttrKind::IntList,
                      {},
                      "the sizes of the parts, which add up to that of the axis"}},
           .infer = inferSplit,
           .vjp = vjpSplit,
           .inverse = inverseSplit,
           .inverseKeepsBits = true,
           .sign = signOfOperands,
           .cost = costFirstOperand,
           .factors = offAxisFactors,
           .examples = {"split(f64[4, 3]) {sizes = [1, 3]}",
                        "split(f64[2, 6]) {axis = 1, sizes = [2, 1, 3]}",
                        "split(f64[2, 4, 2]) {axis = -2, sizes = [2, 2]}",
                        "split(f64[3]) {sizes = [3]}"}},
          {.name = "gather",
           .doc = "For each index, the operand's slice at that index of an axis, as numpy.take "
                  "gives. Negative indices count from the end. An index out of range gives NaN, or "
                  "zero for integers.",
           .operands = "x indices",
           .results = "y",
           .attrs = {kAxis},
           .infer = inferGather,
           .vjp = vjpGather,
           .inverse = inverseGather,
           .inverseHolds = indicesArePermutation,
           .inverseKeepsBits = true,
           .cost = costGather,
           .factors = factorsOfGather,
           .indexBound = boundGather,
           .examples = {"gather(f64[5, 3], i64[4])", "gather(f64[2, 5], i64[2, 3]) {axis = 1}",
                        "gather(f64[5, 2], i32[])", "gather(f64[2, 4, 3], i64[6]) {axis = -2}",
                        "gather(i64[5], i64[3])", "gather(f64[2, 3], i64[3]) {axis = 1}"}},
          {.name = "scatter_rows",
           .doc = "Adds each row at its index on an axis to the base, or to zeros if there is "
                  "none, in the order of the rows: the transpose of gather. Rows with an index out "
                  "of range are left out.",
           .operands = "indices rows base?",
           .results = "y",
           .attrs = {kAxis, {"size", AttrKind::Int, {}, "the size of that axis in the result"}},
           .infer = inferScatterRows,
           .vjp = vjpScatterRows,
           .sumWith = sumWithScatterRows,
           .cost = costScatterRows,
           .inPlace = {{0, 2}},
           .factors = factorsOfScatterRows,
           .accumulation = {"scatter_rows", 2},
           .indexBound = boundScatterRows,
           .examples = {"scatter_rows(i64[4], f64[4, 3]) {size = 5}",
                        "scatter_rows(i64[2, 3], f64[2, 2, 3]) {axis = 1, size = 4}",
                        "scatter_rows(i32[], f64[2]) {size = 3}",
                        "scatter_rows(i64[4], f64[4, 3], f64[5, 3]) {size = 5}",
                        "scatter_rows(i64[6], f64[2, 6, 3]) {axis = -2, size = 4}"}},
          {.name = "trilu",
           .doc = "The upper (or lower) triangle of the matrices in the last two axes, the rest "
                  "zero. The triangle reaches to the k-th diagonal, counted upwards from the main "
                  "one, and includes it.",
           .operands = "x",
           .results = "y",
           .attrs = {{"k", AttrKind::Int, int64_t(0), "the diagonal that bounds the triangle"},
                     {"upper", AttrKind::Bool, true, "the upper or the lower triangle"}},
           .infer = inferTrilu,
           .vjp = vjpTrilu,
           .cost = costFirstResult,
           .inPlace = {{0, 0}},
           .factors = factorsOfTrilu,
           .examples = {"trilu(f64[3, 4])", "trilu(f64[2, 3, 3]) {k = 1}",
                        "trilu(f64[4, 3]) {k = -1, upper = false}",
                        "trilu(f64[3, 3]) {upper = false}"}}};
}

} // namespace

ValueId sliceAxis(Builder &b, ValueId x, int64_t axis, int64_t start, int64_t limit) {
  const Dims &dims = b.type(x).dims;
  if (start == 0 && limit == dims[axis])
    return x;
  Ints starts(dims.size(), 0), limits = ints(dims);
  starts[axis] = start;
  limits[axis] = limit;
  return sliceOf(b, x, starts, limits);
}

void registerShapeOps(OpRegistry &r) {
  r.add(movingRows());
  r.add(joiningRows());
  registerIndexingOps(r);
  registerOrderOps(r);
}

} // namespace isthmus
