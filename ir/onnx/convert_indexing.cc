// Operators that concatenate tensors, split them, or select elements.

#include "ir/onnx/op_table.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

void convertConcat(NodeContext &n) {
  llvm::SmallVector<Operand, 8> parts;
  for (size_t i = 0; i < n.numInputs(); ++i)
    parts.push_back(n.in(i));
  if (!n.hasAttr("axis"))
    return n.fail("expects an attribute 'axis'");
  int64_t axis = n.axis(n.intAttr("axis", 0), n.in(0).type.rank());
  n.result(0, n.emit("concat", parts, {{"axis", axis}}));
}

// The sizes are an attribute (below opset 13), an operand, or equal parts of which the last may be
// smaller.
void convertSplit(NodeContext &n) {
  const Type &x = n.in(0).type;
  int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  int64_t parts = int64_t(n.numOutputs());
  std::optional<Ints> sizes;
  if (n.opset() < 13)
    sizes = n.intsAttr("split");
  else if (n.has(1))
    sizes = n.ints(1);
  if (n.opset() >= 18 && n.hasAttr("num_outputs") && n.intAttr("num_outputs", 0) != parts)
    n.fail("expects as many results as 'num_outputs' says, got {0}", parts);
  if (n.failed())
    return;
  int64_t size = x.dims[size_t(axis)];
  if (!sizes) {
    int64_t each = size / parts + (size % parts != 0);
    sizes.emplace(size_t(parts), each);
    sizes->back() = size - each * (parts - 1);
    if (sizes->back() < 0 || (n.opset() < 18 && size % parts != 0))
      return n.fail("cannot split axis {0} of '{1}' into {2} parts", axis, x.str(), parts);
  }
  if (int64_t(sizes->size()) != parts)
    return n.fail("expects one size for each of the {0} results, got {1}", parts, sizes->size());
  auto results = n.emitAll("split", {n.in(0)}, {{"axis", axis}, {"sizes", *sizes}});
  for (size_t i = 0; i < size_t(parts) && !n.failed(); ++i)
    n.result(i, results[i]);
}

// --- Slice: bounds that count from the end, are out of range, or go backwards are normalized

struct Range {
  int64_t start, limit, step;
};

Range plainRange(int64_t start, int64_t end, int64_t step, int64_t size) {
  if (size == 0)
    return {0, 0, 1};
  // A step beyond the size takes one element, however large it is.
  step = std::clamp<int64_t>(step, -size, size);
  start = start < 0 ? std::max<int64_t>(start, -size - 1) + size : start;
  end = end < 0 ? std::max<int64_t>(end, -size - 1) + size : end;
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    return {start, std::max(start, std::clamp<int64_t>(end, 0, size)), step};
  }
  // If a start lies before the first element, ONNX takes the first element; NumPy takes none.
  start = std::clamp<int64_t>(start, 0, size - 1);
  end = std::clamp<int64_t>(end, -1, size - 1);
  if (end >= start) // empty
    return {0, 0, 1};
  return {start, end, step};
}

void slice(NodeContext &n, const Ints &starts, const Ints &ends, std::optional<Ints> axes,
           std::optional<Ints> steps) {
  const Type &x = n.in(0).type;
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts.size(); ++i)
      axes->push_back(int64_t(i));
  }
  if (!steps)
    steps.emplace(starts.size(), 1);
  if (ends.size() != starts.size() || axes->size() != starts.size() ||
      steps->size() != starts.size())
    return n.fail("expects as many starts, ends, axes and steps, got {0}, {1}, {2} and {3}",
                  starts.size(), ends.size(), axes->size(), steps->size());
  Ints from(size_t(x.rank()), 0), to(x.dims.begin(), x.dims.end()), by(size_t(x.rank()), 1);
  Ints plain = n.axesFromFront(*axes, x.rank());
  if (n.failed())
    return;
  bool whole = true;
  for (size_t i = 0; i < starts.size(); ++i) {
    if ((*steps)[i] == 0)
      return n.fail("expects steps other than 0");
    size_t a = size_t(plain[i]);
    Range r = plainRange(starts[i], ends[i], (*steps)[i], x.dims[a]);
    from[a] = r.start;
    to[a] = r.limit;
    by[a] = r.step;
    whole &= r.start == 0 && r.limit == x.dims[a] && r.step == 1;
  }
  if (whole)
    return n.result(0, n.in(0));
  n.result(0, n.emit("slice", {n.in(0)}, {{"starts", from}, {"limits", to}, {"steps", by}}));
}

void convertSlice1(NodeContext &n) {
  auto starts = n.intsAttr("starts"), ends = n.intsAttr("ends"), axes = n.intsAttr("axes");
  if (!starts || !ends)
    return n.fail("expects attributes 'starts' and 'ends'");
  slice(n, *starts, *ends, axes, std::nullopt);
}

void convertSlice(NodeContext &n) {
  Ints starts = n.ints(1), ends = n.ints(2);
  std::optional<Ints> axes, steps;
  if (n.has(3))
    axes = n.ints(3);
  if (n.has(4))
    steps = n.ints(4);
  if (!n.failed())
    slice(n, starts, ends, axes, steps);
}

void convertGather(NodeContext &n) {
  const Operand &indices = n.in(1);
  int64_t axis = n.axis(n.intAttr("axis", 0), n.in(0).type.rank());
  if (n.failed())
    return;
  int64_t size = n.in(0).type.dims[size_t(axis)];
  if (indices.isConstant() && !isFloat(indices.type.dtype) &&
      n.state.folding.look(indices.type.elements()))
    for (int64_t i = 0; i < indices.type.elements(); ++i)
      if (int64_t at = elementAsInt(indices.data(), i); at < -size || at >= size)
        return n.fail("expects indices in [{0}, {1}), got {2}", -size, size, at);
  n.result(0, n.emit("gather", {n.in(0), n.in(1)}, {{"axis", axis}}));
}

void convertTrilu(NodeContext &n) {
  bool upper = n.intAttr("upper", 1) != 0;
  int64_t k = 0;
  if (n.has(1)) {
    Ints ks = n.ints(1);
    if (!n.failed() && ks.size() != 1)
      return n.fail("expects one number as 'k'");
    if (!n.failed())
      k = ks[0];
  }
  n.result(0, n.emit("trilu", {n.in(0)}, {{"k", k}, {"upper", upper}}));
}

constexpr OnnxOp kOps[] = {
    {"Concat", 4, 1, kAnyNumber, 1, convertConcat},
    {"Split", 2, 1, 2, kAnyNumber, convertSplit, kAllButFirst},
    alsoOnScalars({"Slice", 1, 1, 1, 1, convertSlice1}),
    alsoOnScalars({"Slice", 10, 3, 5, 1, convertSlice, kAllButFirst}),
    weighted(0b1, alsoOnScalars({"Gather", 1, 2, 2, 1, convertGather, kAllButFirst})),
    {"Trilu", 14, 1, 2, 1, convertTrilu, kAllButFirst},
};

} // namespace

OpRows indexingOps() { return kOps; }

} // namespace isthmus::onnx_import
