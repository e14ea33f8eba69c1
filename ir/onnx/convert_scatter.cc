// Gathers and scatters by tensors of indices, and operators composed of them.

#include "ir/builder.h"
#include "ir/onnx/numbers.h"
#include "ir/onnx/op_table.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

// Checks constant indices here, because the row reads nothing at an index out of range.
void checkIndices(NodeContext &n, const Operand &indices, llvm::ArrayRef<int64_t> sizes) {
  if (!indices.isConstant() || isFloat(indices.type.dtype) || sizes.empty() ||
      !n.state.folding.look(indices.type.elements()))
    return;
  for (int64_t i = 0; i < indices.type.elements(); ++i) {
    int64_t size = sizes[size_t(i) % sizes.size()], at = elementAsInt(indices.data(), i);
    if (at < -size || at >= size)
      return n.fail("expects indices in [{0}, {1}), got {2}", -size, size, at);
  }
}

int64_t elementsAxis(NodeContext &n) {
  const Type &x = n.in(0).type;
  int64_t axis = n.axis(n.intAttr("axis", 0), x.rank());
  if (!n.failed())
    checkIndices(n, n.in(1), x.dims[size_t(axis)]);
  return axis;
}

void convertGatherElements(NodeContext &n) {
  int64_t axis = elementsAxis(n);
  n.result(0, n.emit("gather_elements", {n.in(0), n.in(1)}, {{"axis", axis}}));
}

// The sizes that the tuples of indices refer to.
llvm::ArrayRef<int64_t> tupleSizes(NodeContext &n, int64_t batch) {
  llvm::ArrayRef<int64_t> x = n.in(0).type.dims, indices = n.in(1).type.dims;
  if (indices.empty() || batch < 0 || batch + indices.back() > int64_t(x.size()))
    return {}; // the row reports the error
  return x.slice(size_t(batch), size_t(indices.back()));
}

void convertGatherND(NodeContext &n) {
  int64_t batch = n.intAttr("batch_dims", 0);
  checkIndices(n, n.in(1), tupleSizes(n, batch));
  n.result(0, n.emit("gather_nd", {n.in(0), n.in(1)}, {{"batch_dims", batch}}));
}

// Bools are moved unchanged, and combined as numbers.
void scatter(NodeContext &n, const char *row, Attrs attrs) {
  std::string how = n.stringAttr("reduction", "none");
  attrs.set("reduction", how);
  Operand data = n.in(0), updates = n.in(2);
  bool asNumbers = data.type.dtype == DType::Bool && how != "none";
  if (asNumbers) {
    data = n.cast(data, DType::U8);
    updates = n.cast(updates, DType::U8);
  }
  Operand y = n.emit(row, {data, n.in(1), updates}, std::move(attrs));
  n.result(0, asNumbers ? n.cast(y, DType::Bool) : y);
}
void convertScatterElements(NodeContext &n) {
  int64_t axis = elementsAxis(n);
  scatter(n, "scatter_elements", {{"axis", axis}});
}
void convertScatterND(NodeContext &n) {
  checkIndices(n, n.in(1), tupleSizes(n, 0));
  scatter(n, "scatter_nd", {});
}

// `x` with `axis` moved to axis 1, after the batch; `back` is the permutation that undoes it.
Operand afterBatch(NodeContext &n, const Operand &x, int64_t batchAxis, int64_t axis, Ints &back) {
  Ints perm{batchAxis, axis};
  for (int64_t i = 0; i < x.type.rank(); ++i)
    if (i != axis && i != batchAxis)
      perm.push_back(i);
  back = inversePermutation(perm);
  return llvm::is_sorted(perm) ? x : n.transpose(x, perm);
}

// Reverses the first elements of each row: position t reads position length - 1 - t, if t < length.
void convertReverseSequence(NodeContext &n) {
  const Operand &x = n.in(0);
  if (x.type.rank() < 2)
    return n.fail("expects an operand of rank 2 or more, got '{0}'", x.type.str());
  int64_t batchAxis = n.axis(n.intAttr("batch_axis", 1), x.type.rank()),
          timeAxis = n.axis(n.intAttr("time_axis", 0), x.type.rank());
  if (batchAxis == timeAxis)
    n.fail("expects the axes of batch and time to differ, got {0} twice", batchAxis);
  if (n.failed())
    return;
  int64_t batch = x.type.dims[size_t(batchAxis)], time = x.type.dims[size_t(timeAxis)];
  Operand places = counting(n, DType::I64, time);
  Operand lengths = n.reshape(n.cast(n.in(1), DType::I64), {batch, 1});
  Operand mirrored = n.affine(n.emit("sub", {lengths, places}), 1, -1);
  Operand inside = n.emit("less", {places, lengths});
  Operand indices = n.reshape(n.emit("where", {inside, mirrored, places}), {batch, time, 1});
  Ints back;
  Operand rows = afterBatch(n, x, batchAxis, timeAxis, back);
  Operand y = n.emit("gather_nd", {rows, indices}, {{"batch_dims", int64_t(1)}});
  n.result(0, llvm::is_sorted(back) ? y : n.transpose(y, back));
}

// Writes each sample's update into a cache, starting at the sample's index.
void convertTensorScatter(NodeContext &n) {
  const Operand &cache = n.in(0), &update = n.in(1);
  std::string mode = n.stringAttr("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return n.fail("expects linear or circular as attribute 'mode', got '{0}'", mode);
  int64_t axis = n.axis(n.intAttr("axis", -2), cache.type.rank());
  if (n.failed())
    return;
  if (axis == 0 || update.type.rank() != cache.type.rank())
    return n.fail("expects an update of the rank of '{0}' and an axis behind the batch's, got "
                  "'{1}' and {2}",
                  cache.type.str(), update.type.str(), axis);
  int64_t batch = cache.type.dims[0], size = cache.type.dims[size_t(axis)],
          count = update.type.dims[size_t(axis)];
  Operand places = n.reshape(counting(n, DType::I64, count), {1, count});
  Operand at = n.broadcast(places, {batch, count});
  if (n.has(2))
    at = n.emit("add", {n.reshape(n.cast(n.in(2), DType::I64), {batch, 1}), places});
  if (mode == "circular")
    at = n.emit("mod", {at, n.constant(intsTensor({size}))});
  Ints back;
  Operand data = afterBatch(n, cache, 0, axis, back), rows = afterBatch(n, update, 0, axis, back);
  Operand y = n.emit("scatter_nd", {data, n.reshape(at, {batch, count, 1}), rows},
                     {{"batch_dims", int64_t(1)}});
  n.result(0, llvm::is_sorted(back) ? y : n.transpose(y, back));
}

constexpr uint32_t kIndices = 1 << 1;

constexpr OnnxOp kOps[] = {
    alsoOnScalars({"GatherElements", 11, 2, 2, 1, convertGatherElements, kAllButFirst}, 0b11,
                  /*resultsLike=*/1),
    {"GatherND", 11, 2, 2, 1, convertGatherND, kAllButFirst},
    alsoOnScalars({"Scatter", 9, 3, 3, 1, convertScatterElements, kIndices}, 0b111),
    alsoOnScalars({"ScatterElements", 11, 3, 3, 1, convertScatterElements, kIndices}, 0b111),
    {"ScatterND", 11, 3, 3, 1, convertScatterND, kIndices},
    {"ReverseSequence", 10, 2, 2, 1, convertReverseSequence, kAllButFirst},
    {"TensorScatter", 24, 2, 3, 1, convertTensorScatter, 1 << 2},
};

} // namespace

OpRows scatterOps() { return kOps; }

} // namespace isthmus::onnx_import
