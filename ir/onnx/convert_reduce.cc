// Reductions. Axes are an attribute in old versions, an operand in new ones.

#include "ir/onnx/op_table.h"
#include "ir/onnx/torch_op.h"

namespace isthmus::onnx_import {
namespace {

struct Reduction {
  Ints axes; // empty only if there is nothing to reduce
  bool keepDims;
};

// Nothing if no axes are given and the node then does not reduce its operand.
std::optional<Reduction> reduction(NodeContext &n, int64_t axesAreOperandsFrom) {
  int64_t rank = n.in(0).type.rank();
  auto axes = n.axes(1, axesAreOperandsFrom);
  bool noneIfEmpty = n.intAttr("noop_with_empty_axes", 0) != 0;
  Reduction r{{}, n.intAttr("keepdims", 1) != 0};
  if (axes && !axes->empty()) {
    if (rank == 0) { // PyTorch treats a scalar as a vector of one element
      n.axesFromFront(*axes, 1);
      return r;
    }
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

// If several elements are largest, PyTorch's `amax`, and its `max` over all elements, share the
// gradient; its `max` over an axis gives it to one of them. If the exporter recorded no operator, a
// reduction of one given axis is taken for the latter. The newer exporter writes a max pool over
// everything as an `amax` that keeps the axes [-2, -1]; it too gives the gradient to one element.
bool sharesTies(NodeContext &n, const Reduction &r) {
  llvm::StringRef op = torchOp(n.proto);
  if (op.startswith("aten.amax") || op.startswith("aten.amin"))
    return !(n.has(1) && r.keepDims && n.ints(1) == Ints{-2, -1});
  if (op.startswith("aten.max.dim") || op.startswith("aten.min.dim"))
    return false;
  bool isGiven = n.has(1) || n.hasAttr("axes");
  return r.axes.size() != 1 || !isGiven;
}

// Bools are reduced as numbers.
Operand extremum(NodeContext &n, const char *row) {
  const Operand &x = n.in(0);
  auto r = reduction(n, 18);
  if (x.type.dtype == DType::Bool)
    return n.cast(reduce(n, row, n.cast(x, DType::U8), r), DType::Bool);
  if (!r || r->axes.empty())
    return x;
  return n.emit(row, {x},
                {{"axes", r->axes}, {"keepdims", r->keepDims}, {"share_ties", sharesTies(n, *r)}});
}
void convertReduceMax(NodeContext &n) { n.result(0, extremum(n, "max")); }
void convertReduceMin(NodeContext &n) { n.result(0, extremum(n, "min")); }

void convertReduceSum(NodeContext &n) { n.result(0, reduce(n, "sum", n.in(0), reduction(n, 13))); }
void convertReduceProd(NodeContext &n) {
  n.result(0, reduce(n, "prod", n.in(0), reduction(n, 18)));
}
void convertReduceL1(NodeContext &n) {
  n.result(0, reduce(n, "sum", n.emit("abs", {n.in(0)}), reduction(n, 18)));
}
void convertReduceSumSquare(NodeContext &n) {
  n.result(0, reduce(n, "sum", n.emit("square", {n.in(0)}), reduction(n, 18)));
}

// Results with a fraction are computed in f64 for integer operands.
Operand asFloat(NodeContext &n) {
  const Operand &x = n.in(0);
  return isFloat(x.type.dtype) ? x : n.cast(x, DType::F64);
}
void likeOperand(NodeContext &n, const Operand &y) { n.result(0, n.cast(y, n.in(0).type.dtype)); }

void convertReduceMean(NodeContext &n) {
  likeOperand(n, reduce(n, "mean", asFloat(n), reduction(n, 18)));
}
// The norm of zeros has the gradient zero, as in PyTorch. The square root's gradient would be
// infinite, and rows of padding are normalized, too.
void convertReduceL2(NodeContext &n) {
  Operand squares = n.emit("square", {asFloat(n)});
  Operand sum = reduce(n, "sum", squares, reduction(n, 18));
  if (n.failed())
    return;
  Operand zero = n.scalarConstant(sum.type.dtype, 0), one = n.scalarConstant(sum.type.dtype, 1);
  Operand isZero = n.emit("equal", {sum, zero});
  Operand root = n.emit("sqrt", {n.emit("where", {isZero, one, sum})});
  likeOperand(n, n.emit("where", {isZero, zero, root}));
}
void convertReduceLogSum(NodeContext &n) {
  likeOperand(n, n.emit("log", {reduce(n, "sum", asFloat(n), reduction(n, 18))}));
}
void convertReduceLogSumExp(NodeContext &n) { // for one element, that element itself
  likeOperand(n, reduce(n, "logsumexp", asFloat(n), reduction(n, 18)));
}

// --- One axis

void arg(NodeContext &n, const char *row) {
  Operand x = n.in(0);
  int64_t axis = n.axis(n.intAttr("axis", 0), x.type.rank());
  bool keep = n.intAttr("keepdims", 1) != 0, last = n.intAttr("select_last_index", 0) != 0;
  if (x.type.dtype == DType::Bool)
    x = n.cast(x, DType::U8);
  n.result(0, n.emit(row, {x}, {{"axis", axis}, {"keepdims", keep}, {"last", last}}));
}
void convertArgMax(NodeContext &n) { arg(n, "argmax"); }
void convertArgMin(NodeContext &n) { arg(n, "argmin"); }

void scan(NodeContext &n, const char *row) {
  double axis = n.scalar(1);
  bool exclusive = n.intAttr("exclusive", 0) != 0, reverse = n.intAttr("reverse", 0) != 0;
  if (n.failed())
    return;
  int64_t fromFront = n.axis(int64_t(axis), n.in(0).type.rank());
  n.result(0, n.emit(row, {n.in(0)},
                     {{"axis", fromFront}, {"exclusive", exclusive}, {"reverse", reverse}}));
}
void convertCumSum(NodeContext &n) { scan(n, "cumsum"); }
void convertCumProd(NodeContext &n) { scan(n, "cumprod"); }

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
    alsoOnScalars({"ArgMax", 1, 1, 1, 1, convertArgMax, kAllOperands}),
    alsoOnScalars({"ArgMin", 1, 1, 1, 1, convertArgMin, kAllOperands}),
    alsoOnScalars({"CumSum", 11, 2, 2, 1, convertCumSum, kAllButFirst}),
    alsoOnScalars({"CumProd", 26, 2, 2, 1, convertCumProd, kAllButFirst}),
};

} // namespace

OpRows reduceOps() { return kOps; }

} // namespace isthmus::onnx_import
