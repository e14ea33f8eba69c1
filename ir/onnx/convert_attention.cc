// The Attention operator (opset 23), written out in matrix products and a softmax.

#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// [B, T, H * D] into [B, H, T, D]; rank 4 is that already.
Operand splitHeads(NodeContext &n, size_t i, int64_t heads) {
  const Type &x = n.in(i).type;
  if (n.failed() || x.rank() == 4)
    return n.in(i);
  if (x.rank() != 3 || heads < 1 || x.dims[2] % heads != 0) {
    n.fail("expects operands of rank 4, or of rank 3 with numbers of heads that divide the last "
           "axis, got '{0}' and {1} "
           "heads",
           x.str(), heads);
    return {};
  }
  Operand split = n.reshape(n.in(i), {x.dims[0], x.dims[1], heads, x.dims[2] / heads});
  return n.transpose(split, {0, 2, 1, 3});
}

// Where there are fewer heads of keys and values, each serves several queries' heads in a row.
Operand repeatHeads(NodeContext &n, const Operand &x, int64_t heads) {
  if (n.failed())
    return {};
  Dims d = x.type.dims;
  if (d[1] == heads)
    return x;
  if (d[1] == 0 || heads % d[1] != 0) {
    n.fail(
        "expects a number of query heads that is a multiple of that of key heads, got {0} and {1}",
        heads, d[1]);
    return {};
  }
  Operand wide = n.broadcast(n.reshape(x, {d[0], d[1], 1, d[2], d[3]}),
                             {d[0], d[1], heads / d[1], d[2], d[3]});
  return n.reshape(wide, {d[0], heads, d[2], d[3]});
}

// `scores` where `allowed` holds, and -inf elsewhere.
Operand masked(NodeContext &n, const Operand &scores, const Operand &allowed) {
  return n.emit("where", {allowed, scores, n.scalarConstant(scores.type.dtype, -INFINITY)});
}

// Whether key j may be seen by query i: j <= i. Made of rows, so that it folds, or stays a node if
// it is huge.
Operand causal(NodeContext &n, int64_t queries, int64_t keys) {
  float one = 1;
  Operand ones = n.full(Type(DType::F32, {queries, keys}),
                        llvm::makeArrayRef(reinterpret_cast<char *>(&one), 4));
  return n.cast(n.emit("trilu", {ones}, {{"upper", false}}), DType::Bool);
}

void convertAttention(NodeContext &n) {
  n.ignoreAttrs(
      {"softmax_precision"}); // a softmax of 16-bit operands is computed in f32 in any case
  for (size_t i = 4; i < n.numInputs(); ++i)
    if (n.has(i))
      return n.fail("past keys and values (operand {0}) are not supported", i);
  if (n.intAttr("qk_matmul_output_mode", 0) != 0 || n.wants(1) || n.wants(2) || n.wants(3))
    n.fail("results beside the first are not supported");
  bool isCausal = n.intAttr("is_causal", 0) != 0;
  double scale = n.floatAttr("scale", 0), softcap = n.floatAttr("softcap", 0);
  Operand q = splitHeads(n, 0, n.intAttr("q_num_heads", 0));
  int64_t keyHeads = n.intAttr("kv_num_heads", 0);
  Operand k = splitHeads(n, 1, keyHeads), v = splitHeads(n, 2, keyHeads);
  if (n.failed())
    return;
  int64_t heads = q.type.dims[1], queries = q.type.dims[2], depth = q.type.dims[3];
  k = repeatHeads(n, k, heads);
  v = repeatHeads(n, v, heads);
  if (scale == 0 && depth > 0)
    scale = 1 / std::sqrt(double(depth));

  Operand scores = n.affine(n.emit("matmul", {q, k}, {{"transpose_b", true}}), scale, 0);
  if (n.failed())
    return;
  if (softcap != 0) // before the masks, or it would undo them
    scores = n.affine(n.emit("tanh", {n.affine(scores, 1 / softcap, 0)}), softcap, 0);
  if (isCausal)
    scores = masked(n, scores, causal(n, queries, k.type.dims[2]));
  if (n.has(3)) {
    const Operand &mask = n.in(3);
    scores =
        mask.type.dtype == DType::Bool ? masked(n, scores, mask) : n.emit("add", {scores, mask});
  }
  Operand y = n.emit("matmul", {n.emit("softmax", {scores}, {{"axis", int64_t(-1)}}), v});
  if (n.failed() || n.in(0).type.rank() == 4)
    return n.result(0, y);
  Dims d = y.type.dims;
  n.result(0, n.reshape(n.transpose(y, {0, 2, 1, 3}), {d[0], d[2], d[1] * d[3]}));
}

constexpr OnnxOp kOps[] = {
    {"Attention", 23, 3, 7, 4, convertAttention},
};

} // namespace

OpRows attentionOps() { return kOps; }

} // namespace isthmus::onnx_import
