// Reductions. Axes are an attribute in old versions, an operand in new ones.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

struct Reduction {
  Ints axes; // never empty, unless there is nothing to reduce
  bool keepDims;
};

// Nothing: no axes are given, and that means here that the operand is not reduced.
std::optional<Reduction> reduction(NodeContext &n, int64_t axesAreOperandsFrom) {
  int64_t rank = n.in(0).type.rank();
  auto axes = n.axes(1, axesAreOperandsFrom);
  bool noneIfEmpty = n.intAttr("noop_with_empty_axes", 0) != 0;
  Reduction r{{}, n.intAttr("keepdims", 1) != 0};
  if (axes && !axes->empty()) {
    r.axes = n.axesFromFront(*axes, rank);
  } else if (noneIfEmpty) {
    return std::nullopt;
  } else {
    for (int64_t a = 0; a < rank; ++a)
      r.axes.push_back(a);
  }
  return r;
}

Operand reduce(NodeContext &n, const char *row, const Operand &x,
               const std::optional<Reduction> &r) {
  if (!r || r->axes.empty())
    return x;
  return n.emit(row, {x}, {{"axes", r->axes}, {"keepdims", r->keepDims}});
}

void convertReduceMean(NodeContext &n) {
  n.result(0, reduce(n, "mean", n.in(0), reduction(n, 18)));
}
void convertReduceSum(NodeContext &n) { n.result(0, reduce(n, "sum", n.in(0), reduction(n, 13))); }
void convertReduceMax(NodeContext &n) { n.result(0, reduce(n, "max", n.in(0), reduction(n, 18))); }
void convertReduceMin(NodeContext &n) {
  n.result(0, n.emit("neg", {reduce(n, "max", n.emit("neg", {n.in(0)}), reduction(n, 18))}));
}
void convertReduceL1(NodeContext &n) {
  n.result(0, reduce(n, "sum", n.emit("abs", {n.in(0)}), reduction(n, 18)));
}
void convertReduceSumSquare(NodeContext &n) {
  n.result(0, reduce(n, "sum", n.emit("square", {n.in(0)}), reduction(n, 18)));
}
void convertReduceL2(NodeContext &n) {
  n.result(0, n.emit("sqrt", {reduce(n, "sum", n.emit("square", {n.in(0)}), reduction(n, 18))}));
}
void convertReduceLogSum(NodeContext &n) {
  n.result(0, n.emit("log", {reduce(n, "sum", n.in(0), reduction(n, 18))}));
}

// log(sum(exp(x))), with the maximum taken out so that nothing overflows; no gradient needs to flow
// through it.
void convertReduceLogSumExp(NodeContext &n) {
  auto r = reduction(n, 18);
  if (!r || r->axes.empty())
    return n.result(0, n.in(0));
  Reduction kept{r->axes, true};
  Operand top = n.emit("stop_gradient", {reduce(n, "max", n.in(0), kept)});
  Operand sum = reduce(n, "sum", n.emit("exp", {n.emit("sub", {n.in(0), top})}), kept);
  Operand y = n.emit("add", {n.emit("log", {sum}), top});
  if (n.failed())
    return;
  Ints dims;
  for (int64_t a = 0; a < n.in(0).type.rank(); ++a)
    if (r->keepDims || !llvm::is_contained(r->axes, a))
      dims.push_back(y.type.dims[size_t(a)]);
  n.result(0, n.reshape(y, dims));
}

// Of shapes, that is of integers known at import: how a number of elements is written out.
void convertReduceProd(NodeContext &n) {
  auto r = reduction(n, 18);
  const Operand &x = n.in(0);
  if (n.failed())
    return;
  if (!x.isConstant() || isFloat(x.type.dtype) || !r || int64_t(r->axes.size()) != x.type.rank())
    return n.fail("is supported of integers known at import, over all axes; got '{0}'",
                  x.type.str());
  if (!n.state.folding.look(x.type.elements()))
    return n.fail("has an operand that is too large, '{0}'", x.type.str());
  int64_t product = 1;
  for (int64_t i = 0; i < x.type.elements(); ++i)
    if (__builtin_mul_overflow(product, elementAsInt(x.data(), i), &product))
      return n.fail("overflows 64 bits");
  Dims dims(r->keepDims ? size_t(x.type.rank()) : 0, 1);
  Operand all = n.constant(
      filled(Type(DType::I64, dims), llvm::makeArrayRef(reinterpret_cast<char *>(&product), 8)));
  n.result(0, n.cast(all, x.type.dtype));
}

constexpr OnnxOp row(llvm::StringRef name, void (*convert)(NodeContext &)) {
  return {name, 1, 1, 2, 1, convert, kAllButFirst};
}

constexpr OnnxOp kOps[] = {
    row("ReduceMean", convertReduceMean),
    row("ReduceSum", convertReduceSum),
    row("ReduceMax", convertReduceMax),
    row("ReduceMin", convertReduceMin),
    row("ReduceL1", convertReduceL1),
    row("ReduceL2", convertReduceL2),
    row("ReduceSumSquare", convertReduceSumSquare),
    row("ReduceLogSum", convertReduceLogSum),
    row("ReduceLogSumExp", convertReduceLogSumExp),
    row("ReduceProd", convertReduceProd),
};

} // namespace

OpRows reduceOps() { return kOps; }

} // namespace isthmus::onnx_import
