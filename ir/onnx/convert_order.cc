// Selections by order or by a mask, and one-hot encodings.

#include "ir/onnx/numbers.h"
#include "ir/onnx/op_table.h"
#include <cstring>
#include <map>

namespace isthmus::onnx_import {
namespace {

void topK(NodeContext &n, int64_t k, bool largest) {
  if (n.failed())
    return;
  const Type &x = n.in(0).type;
  int64_t axis = n.axis(n.intAttr("axis", -1), x.rank());
  auto both = n.emitAll("top_k", {n.in(0)}, {{"axis", axis}, {"k", k}, {"largest", largest}});
  if (n.failed())
    return;
  n.result(0, both[0]);
  n.result(1, both[1]);
}

void convertTopK1(NodeContext &n) { topK(n, n.intAttr("k", -1), true); }
void convertTopK(NodeContext &n) {
  n.ignoreAttrs({"sorted"}); // any order is allowed if sorting is not requested
  bool largest = n.intAttr("largest", 1) != 0;
  topK(n, n.integer(1), largest);
}

// One at the first maximum along the axis, zero elsewhere.
void convertHardmax(NodeContext &n) {
  const Operand &x = n.in(0);
  int64_t rank = x.type.rank(), axis = n.intAttr("axis", n.opset() < 13 ? 1 : -1);
  axis = n.axis(axis, rank);
  if (n.failed())
    return;
  // Below opset 13 the operand is taken as a matrix: the axes from this one on become one.
  Operand rows = x;
  int64_t size = x.type.dims[size_t(axis)];
  if (n.opset() < 13) {
    int64_t outer = 1;
    for (int64_t i = 0; i < axis; ++i)
      outer *= x.type.dims[size_t(i)];
    size = outer ? x.type.elements() / outer : 0;
    rows = n.reshape(x, {outer, size});
    axis = 1;
  }
  Operand at = n.emit("argmax", {rows}, {{"axis", axis}, {"keepdims", true}});
  Ints dims(size_t(rows.type.rank()), 1);
  dims[size_t(axis)] = size;
  Operand mark = n.emit("equal", {at, n.reshape(counting(n, DType::I64, size), dims)});
  n.result(0, n.reshape(n.cast(mark, x.type.dtype), x.type.dims));
}

// The second of `values` at the position of the index, else the first. Negative indices count from
// the end.
void convertOneHot(NodeContext &n) {
  Operand indices = n.in(0);
  const Operand &values = n.in(2);
  int64_t depth = n.integer(1), rank = indices.type.rank() + 1;
  int64_t axis = n.axis(n.intAttr("axis", -1), rank);
  if (n.failed())
    return;
  if (depth < 0 || values.type.dims != Dims{2})
    return n.fail("expects a depth of 0 or more and two values, got {0} and '{1}'", depth,
                  values.type.str());
  indices = n.cast(indices, DType::I64);
  Operand negative = n.emit("less", {indices, n.scalarConstant(DType::I64, 0)});
  indices = n.emit("where", {negative, n.affine(indices, 1, double(depth)), indices});
  Dims apart = n.in(0).type.dims;
  apart.insert(apart.begin() + axis, 1);
  Ints dims(size_t(rank), 1);
  dims[size_t(axis)] = depth;
  Operand places = n.reshape(counting(n, DType::I64, depth), dims);
  Operand mark = n.emit("equal", {n.reshape(indices, apart), places});
  auto value = [&](int64_t i) {
    Operand one = n.emit("slice", {values}, {{"starts", Ints{i}}, {"limits", Ints{i + 1}}});
    return n.reshape(one, {});
  };
  n.result(0, n.emit("where", {mark, value(1), value(0)}));
}

// The slices for which a constant condition holds.
void convertCompress(NodeContext &n) {
  Operand x = n.in(0);
  const Operand &condition = n.in(1);
  const Tensor *holds = n.known(1); // the size of the result depends on it
  if (!holds)
    return;
  int64_t axis = 0;
  if (n.hasAttr("axis"))
    axis = n.axis(n.intAttr("axis", 0), x.type.rank());
  else
    x = n.reshape(x, {x.type.elements()});
  if (n.failed())
    return;
  int64_t size = x.type.dims[size_t(axis)], count = condition.type.elements();
  if (condition.type.rank() != 1 || count > size || !n.state.folding.take(count * 8))
    return n.fail("expects a list of at most {0} conditions, got '{1}'", size,
                  condition.type.str());
  Ints chosen;
  for (int64_t i = 0; i < count; ++i)
    if (elementAsDouble(*holds, i) != 0)
      chosen.push_back(i);
  n.result(0, n.emit("gather", {x, n.constant(intsTensor(chosen))}, {{"axis", axis}}));
}

// The distinct slices of a constant along an axis (or elements, without an axis), the first
// position of each, the slice at each position, and the number of positions of each.
void convertUnique(NodeContext &n) {
  Operand x = n.in(0);
  const Tensor *elements = n.known(0); // the size of the result depends on them
  if (!elements)
    return;
  bool sorted = n.intAttr("sorted", 1) != 0;
  int64_t axis = 0;
  if (n.hasAttr("axis"))
    axis = n.axis(n.intAttr("axis", 0), x.type.rank());
  else
    x = n.reshape(x, {x.type.elements()});
  if (n.failed())
    return;
  int64_t size = x.type.dims[size_t(axis)], outer = 1, inner = 1;
  for (int64_t i = 0; i < x.type.rank(); ++i)
    if (i != axis)
      (i < axis ? outer : inner) *= x.type.dims[size_t(i)];
  if (!n.state.folding.look(8 * x.type.elements()) || !n.state.folding.take(40 * size))
    return n.fail("has an operand that is too large, '{0}'", x.type.str());

  // Slices in order, each with its positions.
  std::map<Floats, Ints> places;
  for (int64_t i = 0; i < size; ++i) {
    Floats slice;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t j = 0; j < inner; ++j)
        slice.push_back(elementAsDouble(*elements, (o * size + i) * inner + j));
    places[slice].push_back(i);
  }
  std::vector<const Ints *> found;
  for (const auto &entry : places)
    found.push_back(&entry.second);
  if (!sorted)
    llvm::sort(found, [](const Ints *a, const Ints *b) { return a->front() < b->front(); });
  Ints first, which(size_t(size), 0), counts;
  for (const Ints *at : found) {
    for (int64_t i : *at)
      which[size_t(i)] = int64_t(first.size());
    first.push_back(at->front());
    counts.push_back(int64_t(at->size()));
  }
  n.result(0, n.emit("gather", {x, n.constant(intsTensor(first))}, {{"axis", axis}}));
  n.result(1, n.constant(intsTensor(first)));
  n.result(2, n.constant(intsTensor(which)));
  n.result(3, n.constant(intsTensor(counts)));
}

constexpr OnnxOp kOps[] = {
    alsoOnScalars({"TopK", 1, 1, 1, 2, convertTopK1}),
    alsoOnScalars({"TopK", 10, 2, 2, 2, convertTopK, kAllButFirst}),
    alsoOnScalars({"Hardmax", 1, 1, 1, 1, convertHardmax, kAllOperands}),
    {"OneHot", 9, 3, 3, 1, convertOneHot, kAllOperands},
    {"Compress", 9, 2, 2, 1, convertCompress, kAllButFirst},
    {"Unique", 11, 1, 1, 4, convertUnique, kAllOperands},
};

} // namespace

OpRows orderOps() { return kOps; }

} // namespace isthmus::onnx_import
