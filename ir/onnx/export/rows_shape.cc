// Shapes, sums and products, as standard operators.

#include "ir/builder.h"
#include "ir/onnx/export/body.h"
#include "ir/onnx/tensor_data.h"
#include "ir/rank.h"
#include <numeric>

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

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
    if (steps[i] < 0 && limits[i] < 0) // before the first element; -1 would mean the last
      limits[i] = -w.type(0).dims[i] - 1;
  return {w.slice(w.x(0), starts, limits, sequence(0, int64_t(starts.size())), steps)};
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
Names trilu(const RowWriter &w) {
  return {w.b.emit("Trilu", {w.x(0), w.b.integer(w.attrs.getInt("k"))},
                   {{"upper", int64_t(w.attrs.getBool("upper"))}})};
}

// --- Reductions

Names reduced(const RowWriter &w, const char *op, DType type) {
  Names in{w.cast(w.x(0), w.dtype(), type)};
  if (const Ints &axes = w.attrs.getInts("axes"); !axes.empty())
    in.push_back(w.b.ints(axes));
  Name y = w.b.emit(op, in, {{"keepdims", int64_t(w.attrs.getBool("keepdims"))}});
  return {w.cast(y, type, w.dtype())};
}
Names reduced(const RowWriter &w, const char *op) { return reduced(w, op, w.dtype()); }
Names sum(const RowWriter &w) { return reduced(w, "ReduceSum", w.wide()); }
Names mean(const RowWriter &w) { return reduced(w, "ReduceMean"); }
Names largest(const RowWriter &w) { return reduced(w, "ReduceMax"); }
Names smallest(const RowWriter &w) { return reduced(w, "ReduceMin"); }
Names product(const RowWriter &w) { return reduced(w, "ReduceProd", w.wide()); }
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
  Name x = w.cast(w.x(0), w.dtype(), w.wide());
  Name y = w.b.emit("CumSum", {x, w.b.integer(w.attrs.getInt("axis"))},
                    {{"exclusive", int64_t(w.attrs.getBool("exclusive"))},
                     {"reverse", int64_t(w.attrs.getBool("reverse"))}});
  return {w.cast(y, w.wide(), w.dtype())};
}
// In f32 at least: not every evaluator supports determinants of 16-bit floats.
Names determinant(const RowWriter &w) {
  DType in = w.dtype() == DType::F64 ? DType::F64 : DType::F32;
  return {w.cast(w.b.emit("Det", {w.cast(w.x(0), w.dtype(), in)}), in, w.dtype())};
}

// The reduced axes are flattened into one last axis. The gradient goes to the first element there
// that equals the result or, with share_ties, in equal parts to all of them.
Names maxGrad(const RowWriter &w) {
  const Type &x = w.type(1);
  llvm::SmallVector<bool, 8> isReduced(size_t(x.rank()), w.attrs.getInts("axes").empty());
  for (int64_t a : w.attrs.getInts("axes"))
    isReduced[size_t(axisFromFront(a, x.rank()))] = true;
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
  Name g = w.reshape(w.x(0), {rows, 1});
  auto moveBack = [&](const Name &dx) {
    return w.transpose(w.reshape(dx, moved), inversePermutation(perm));
  };
  if (w.attrs.getBool("share_ties")) {
    Name count = w.b.emit("ReduceSum", {w.cast(isLargest, DType::Bool, w.dtype()), w.b.ints({1})});
    return {moveBack(w.b.emit("Where", {isLargest, w.b.emit("Div", {g, count}), w.number(0)}))};
  }
  Name number = w.b.emit("Cast", {isLargest}, {{"to", int64_t(onnx::TensorProto::FLOAT)}});
  Name at = w.b.emit("ArgMax", {number}, {{"axis", int64_t(1)}, {"keepdims", int64_t(1)}});
  Name isFirst =
      w.b.emit("And", {isLargest, w.b.emit("Equal", {w.b.ints(sequence(0, width)), at})});
  return {moveBack(w.b.emit("Where", {isFirst, g, w.number(0)}))};
}

// --- Matrix product

Names matmul(const RowWriter &w) {
  bool ta = w.attrs.getBool("transpose_a"), tb = w.attrs.getBool("transpose_b");
  if (w.type(0).rank() == 2 && w.type(1).rank() == 2 && (ta || tb || w.has(2))) {
    std::vector<Name> operands = {w.x(0), w.x(1)};
    if (w.has(2))
      operands.push_back(w.x(2));
    return {w.b.emit("Gemm", operands, {{"transA", int64_t(ta)}, {"transB", int64_t(tb)}})};
  }
  auto turned = [&](size_t i, bool turn) {
    Ints perm = sequence(0, w.type(i).rank());
    if (turn)
      std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    return w.transpose(w.x(i), perm);
  };
  Name y = w.b.emit("MatMul", {turned(0, ta), turned(1, tb)});
  return {w.has(2) ? w.b.emit("Add", {y, w.x(2)}) : y};
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
    {"trilu", trilu},
    {"sum", sum},
    {"mean", mean},
    {"max", largest},
    {"prod", product},
    {"max_grad", maxGrad},
    {"min", smallest},
    {"min_grad", maxGrad}, // it too looks for elements equal to the result
    {"logsumexp", logSumExp},
    {"argmax", argMax},
    {"argmin", argMin},
    {"cumsum", cumSum},
    {"det", determinant},
    {"matmul", matmul},
};

} // namespace

ExportRows shapeRows() { return kRows; }

} // namespace isthmus::onnx_export
