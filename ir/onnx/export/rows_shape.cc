// Shapes, choosing elements, sums and products, as standard operators.

#include "ir/builder.h"
#include "ir/onnx/export/body.h"
#include "ir/onnx/tensor_data.h"
#include <numeric>

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

Ints intsOf(llvm::ArrayRef<int64_t> v) { return Ints(v.begin(), v.end()); }
int64_t product(llvm::ArrayRef<int64_t> v) {
  return std::accumulate(v.begin(), v.end(), int64_t(1), std::multiplies<>());
}
Names alone(const RowWriter &w) { return {w.b.emit("Identity", {w.x(0)})}; }

Names full(const RowWriter &w) {
  const Type &t = w.results[0];
  Name y = w.b.emit("ConstantOfShape", {w.b.ints(t.dims)});
  onnx::AttributeProto &a = *w.b.last().add_attribute();
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  Tensor number = onnx_import::floatsTensor(Type(t.dtype, {1}), {w.attrs.getFloat("value")});
  *a.mutable_t() = tensorProto(number, "");
  return {y};
}

Names reshape(const RowWriter &w) { return {w.reshape(w.x(0), w.results[0].dims)}; }
Names transpose(const RowWriter &w) {
  const Ints &perm = w.attrs.getInts("perm");
  if (perm.empty())
    return alone(w);
  return {w.b.emit("Transpose", {w.x(0)}, {{"perm", perm}})};
}
Names broadcast(const RowWriter &w) {
  return {w.b.emit("Expand", {w.x(0), w.b.ints(w.results[0].dims)})};
}

Names slice(const RowWriter &w) {
  Ints starts = w.attrs.getInts("starts"), limits = w.attrs.getInts("limits"),
       steps = w.attrs.getInts("steps");
  if (starts.empty())
    return alone(w);
  steps.resize(starts.size(), 1);
  for (size_t i = 0; i < limits.size(); ++i)
    if (steps[i] < 0 && limits[i] < 0) // below the first element: -1 would be the last
      limits[i] = -w.type(0).dims[i] - 1;
  return {w.b.emit("Slice", {w.x(0), w.b.ints(starts), w.b.ints(limits),
                             w.b.ints(sequence(0, int64_t(starts.size()))), w.b.ints(steps)})};
}

Names pad(const RowWriter &w) {
  Ints pads = w.attrs.getInts("low");
  const Ints &high = w.attrs.getInts("high");
  if (pads.empty())
    return alone(w);
  pads.insert(pads.end(), high.begin(), high.end());
  const std::string &mode = w.attrs.getString("mode");
  Names in{w.x(0), w.b.ints(pads)};
  if (mode == "constant")
    in.push_back(w.number(w.attrs.getFloat("value")));
  return {w.b.emit("Pad", in, {{"mode", mode}})};
}

Names concat(const RowWriter &w) {
  Names in;
  for (const Known &o : w.operands)
    in.push_back(o.name);
  return {w.b.emit("Concat", in, {{"axis", w.attrs.getInt("axis")}})};
}
Names split(const RowWriter &w) {
  return w.b.emitAll("Split", {w.x(0), w.b.ints(w.attrs.getInts("sizes"))}, w.results.size(),
                     {{"axis", w.attrs.getInt("axis")}});
}
Names gather(const RowWriter &w) {
  return {w.b.emit("Gather", {w.x(0), w.x(1)}, {{"axis", w.attrs.getInt("axis")}})};
}

// Rows [before, indices, after] are added to zeros, or to the base, [size, before, after] at their
// indices.
Names scatterRows(const RowWriter &w) {
  const Type &indices = w.type(0), &rows = w.type(1), &y = w.results[0];
  int64_t axis = w.attrs.getInt("axis"), k = indices.rank();
  axis = axis < 0 ? axis + y.rank() : axis;
  Ints perm = sequence(axis, axis + k), back;
  for (int64_t i = 0; i < rows.rank(); ++i)
    if (i < axis || i >= axis + k)
      perm.push_back(i);
  Dims zeros = y.dims;
  zeros.erase(zeros.begin() + axis);
  zeros.insert(zeros.begin(), y.dims[size_t(axis)]);
  for (int64_t i = 0; i < y.rank(); ++i)
    back.push_back(i == axis ? 0 : i < axis ? i + 1 : i);
  Name at = w.x(0);
  if (indices.dtype != DType::I64)
    at = w.b.emit("Cast", {at}, {{"to", int64_t(onnx::TensorProto::INT64)}});
  Ints one = intsOf(indices.dims);
  one.push_back(1);
  Name start;
  if (w.has(2)) { // the base, with its axis first
    Ints first{axis};
    for (int64_t i = 0; i < y.rank(); ++i)
      if (i != axis)
        first.push_back(i);
    start = w.transpose(w.x(2), first);
  } else {
    start = w.b.emit("Expand", {w.b.number(y.dtype, 0), w.b.ints(zeros)});
  }
  Name sum = w.b.emit("ScatterND", {start, w.reshape(at, one), w.transpose(w.x(1), perm)},
                      {{"reduction", std::string("add")}});
  return {w.transpose(sum, back)};
}

// --- Element by element. Where only the last of equal indices counts, there is no operator.

Names gatherElements(const RowWriter &w) {
  if (w.attrs.getBool("last_only"))
    return {};
  int64_t axis = w.attrs.getInt("axis"), rank = w.type(0).rank();
  Ints ends(w.type(1).dims.begin(), w.type(1).dims.end());
  axis = axis < 0 ? axis + rank : axis;
  ends[size_t(axis)] = w.type(0).dims[size_t(axis)];
  Name x = w.x(0);
  if (llvm::makeArrayRef(ends) != llvm::makeArrayRef(w.type(0).dims)) // evaluators want equal sizes
    x = w.b.emit("Slice", {x, w.b.ints(Ints(ends.size(), 0)), w.b.ints(ends)});
  return {w.b.emit("GatherElements", {x, w.x(1)}, {{"axis", axis}})};
}
Names gatherNd(const RowWriter &w) {
  if (w.attrs.getBool("last_only"))
    return {};
  Name at = w.x(1);
  if (w.dtype(1) != DType::I64)
    at = w.b.emit("Cast", {at}, {{"to", int64_t(onnx::TensorProto::INT64)}});
  return {w.b.emit("GatherND", {w.x(0), at}, {{"batch_dims", w.attrs.getInt("batch_dims")}})};
}
Names scatterElements(const RowWriter &w) {
  return {
      w.b.emit("ScatterElements", {w.x(0), w.x(1), w.x(2)},
               {{"axis", w.attrs.getInt("axis")}, {"reduction", w.attrs.getString("reduction")}})};
}
Names scatterNd(const RowWriter &w) {
  if (w.attrs.getInt("batch_dims") != 0)
    return {};
  Name at = w.x(1);
  if (w.dtype(1) != DType::I64)
    at = w.b.emit("Cast", {at}, {{"to", int64_t(onnx::TensorProto::INT64)}});
  return {
      w.b.emit("ScatterND", {w.x(0), at, w.x(2)}, {{"reduction", w.attrs.getString("reduction")}})};
}
Names topK(const RowWriter &w) {
  return w.b.emitAll(
      "TopK", {w.x(0), w.b.ints({w.attrs.getInt("k")})}, 2,
      {{"axis", w.attrs.getInt("axis")}, {"largest", int64_t(w.attrs.getBool("largest"))}});
}

Names trilu(const RowWriter &w) {
  return {w.b.emit("Trilu", {w.x(0), w.b.integer(w.attrs.getInt("k"))},
                   {{"upper", int64_t(w.attrs.getBool("upper"))}})};
}

// --- Reductions

Names reduced(const RowWriter &w, const char *op) {
  Names in{w.x(0)};
  if (const Ints &axes = w.attrs.getInts("axes"); !axes.empty())
    in.push_back(w.b.ints(axes));
  return {w.b.emit(op, in, {{"keepdims", int64_t(w.attrs.getBool("keepdims"))}})};
}
Names sum(const RowWriter &w) { return reduced(w, "ReduceSum"); }
Names mean(const RowWriter &w) { return reduced(w, "ReduceMean"); }
Names largest(const RowWriter &w) { return reduced(w, "ReduceMax"); }
Names smallest(const RowWriter &w) { return reduced(w, "ReduceMin"); }
Names product(const RowWriter &w) { return reduced(w, "ReduceProd"); }
Names logSumExp(const RowWriter &w) {
  return w.type(0).rank() == 0 ? alone(w) : reduced(w, "ReduceLogSumExp");
}

Names argument(const RowWriter &w, const char *op) {
  return {w.b.emit(op, {w.x(0)},
                   {{"axis", w.attrs.getInt("axis")},
                    {"keepdims", int64_t(w.attrs.getBool("keepdims"))},
                    {"select_last_index", int64_t(w.attrs.getBool("last"))}})};
}
Names argMax(const RowWriter &w) { return argument(w, "ArgMax"); }
Names argMin(const RowWriter &w) { return argument(w, "ArgMin"); }

Names cumSum(const RowWriter &w) {
  return {w.b.emit("CumSum", {w.x(0), w.b.integer(w.attrs.getInt("axis"))},
                   {{"exclusive", int64_t(w.attrs.getBool("exclusive"))},
                    {"reverse", int64_t(w.attrs.getBool("reverse"))}})};
}
Names determinant(const RowWriter &w) { return {w.b.emit("Det", {w.x(0)})}; }

// The reduced axes become one, the last: there the first that equals the largest is looked for.
Names maxGrad(const RowWriter &w) {
  const Type &x = w.type(1);
  llvm::SmallVector<bool, 8> isReduced(size_t(x.rank()), w.attrs.getInts("axes").empty());
  for (int64_t a : w.attrs.getInts("axes"))
    isReduced[size_t(a < 0 ? a + x.rank() : a)] = true;
  Ints perm, last, outer, moved;
  for (int64_t i = 0; i < x.rank(); ++i)
    (isReduced[size_t(i)] ? last : perm).push_back(i);
  for (int64_t i : perm)
    outer.push_back(x.dims[size_t(i)]);
  perm.insert(perm.end(), last.begin(), last.end());
  for (int64_t i : perm)
    moved.push_back(x.dims[size_t(i)]);
  int64_t rows = product(outer), width = product(x.dims) / std::max<int64_t>(rows, 1);
  if (rows == 0 || width == 0)
    return {};
  Name flat = w.reshape(w.transpose(w.x(1), perm), {rows, width});
  Name isLargest = w.b.emit("Equal", {flat, w.reshape(w.x(2), {rows, 1})});
  Name number = w.b.emit("Cast", {isLargest}, {{"to", int64_t(onnx::TensorProto::FLOAT)}});
  Name at = w.b.emit("ArgMax", {number}, {{"axis", int64_t(1)}, {"keepdims", int64_t(1)}});
  Name isFirst =
      w.b.emit("And", {isLargest, w.b.emit("Equal", {w.b.ints(sequence(0, width)), at})});
  Name dx = w.b.emit("Where", {isFirst, w.reshape(w.x(0), {rows, 1}), w.number(0)});
  return {w.transpose(w.reshape(dx, moved), inversePermutation(perm))};
}

// --- Matrix product

Names matmul(const RowWriter &w) {
  bool ta = w.attrs.getBool("transpose_a"), tb = w.attrs.getBool("transpose_b");
  if (!ta && !tb)
    return {w.b.emit("MatMul", {w.x(0), w.x(1)})};
  if (w.type(0).rank() == 2 && w.type(1).rank() == 2)
    return {w.b.emit("Gemm", {w.x(0), w.x(1)}, {{"transA", int64_t(ta)}, {"transB", int64_t(tb)}})};
  auto turned = [&](size_t i, bool turn) {
    Ints perm = sequence(0, w.type(i).rank());
    if (turn)
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return w.transpose(w.x(i), perm);
  };
  return {w.b.emit("MatMul", {turned(0, ta), turned(1, tb)})};
}

constexpr ExportRow kRows[] = {
    {"full", full},
    {"reshape", reshape},
    {"transpose", transpose},
    {"broadcast", broadcast},
    {"slice", slice},
    {"pad", pad},
    {"concat", concat},
    {"split", split},
    {"gather", gather},
    {"scatter_rows", scatterRows},
    {"trilu", trilu},
    {"sum", sum},
    {"mean", mean},
    {"max", largest},
    {"prod", product},
    {"max_grad", maxGrad},
    {"min", smallest},
    {"min_grad", maxGrad}, // at the first that equals the result, as there
    {"logsumexp", logSumExp},
    {"argmax", argMax},
    {"argmin", argMin},
    {"cumsum", cumSum},
    {"det", determinant},
    {"gather_elements", gatherElements},
    {"gather_nd", gatherNd},
    {"scatter_elements", scatterElements},
    {"scatter_nd", scatterNd},
    {"top_k", topK},
    {"matmul", matmul},
};

} // namespace

ExportRows shapeRows() { return kRows; }

} // namespace isthmus::onnx_export
