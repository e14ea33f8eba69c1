// Operators of recent state-space and linear attention models (opset 27), written out step by step.

#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// --- LinearAttention

struct Steps { // one operand's steps, each [1, B, H, rows, columns]
  llvm::SmallVector<Operand, 4> at;
};

// Splits [B, T, H * rows * columns] into steps.
Steps stepsOf(NodeContext &n, const Operand &x, int64_t heads, int64_t rows, int64_t columns) {
  const Dims d = x.type.dims;
  if (n.failed() || d.size() != 3 || d[2] != heads * rows * columns) {
    n.fail("expects an operand of rank 3 with {0} elements for each step, got '{1}'",
           heads * rows * columns, x.type.str());
    return {llvm::SmallVector<Operand, 4>(size_t(d.size() > 1 ? d[1] : 0))};
  }
  Operand split = n.reshape(x, {d[0], d[1], heads, rows, columns});
  split = n.transpose(split, {1, 0, 2, 3, 4});
  return {n.emitAll("split", {split}, {{"axis", int64_t(0)}, {"sizes", Ints(size_t(d[1]), 1)}})};
}

void convertLinearAttention(NodeContext &n) {
  n.ignoreAttrs({"chunk_size"}); // the result does not depend on it
  int64_t heads = n.intAttr("q_num_heads", 0), keyHeads = n.intAttr("kv_num_heads", 0);
  double scale = n.floatAttr("scale", 0);
  std::string rule = n.stringAttr("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta";
  bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear")
    return n.fail("expects the update rule linear, gated, delta or gated_delta, got '{0}'", rule);
  const Type q = n.in(0).type, k = n.in(1).type, v = n.in(2).type;
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3 || keyHeads < 1 || heads < 1 ||
      heads % keyHeads != 0 || q.dims[2] % heads != 0 || v.dims[2] % keyHeads != 0)
    return n.fail("expects operands of rank 3 whose last axes are multiples of {0} query heads and "
                  "{1} key heads, got '{2}', '{3}' and '{4}'",
                  heads, keyHeads, q.str(), k.str(), v.str());
  if ((gated && !n.has(4)) || (delta && !n.has(5)))
    return n.fail("expects '{0}' with the update rule '{1}'", gated && !n.has(4) ? "decay" : "beta",
                  rule);
  int64_t steps = q.dims[1], depth = q.dims[2] / heads, width = v.dims[2] / keyHeads;
  if (steps == 0)
    return n.fail("expects one step or more, got '{0}'", q.str());
  if (scale == 0 && depth > 0)
    scale = 1 / std::sqrt(double(depth));
  // Sums over many steps need more than 16 bits.
  DType type = q.dtype == DType::F64 ? DType::F64 : DType::F32;
  auto wide = [&](size_t i) { return n.cast(n.in(i), type); };

  Steps qs = stepsOf(n, n.affine(wide(0), scale, 0), keyHeads, heads / keyHeads, depth);
  Steps ks = stepsOf(n, wide(1), keyHeads, depth, 1);
  Steps vs = stepsOf(n, wide(2), keyHeads, 1, width), decays, rates;
  if (n.failed())
    return;
  if (gated) {
    bool each = n.in(4).type.rank() == 3 && n.in(4).type.dims[2] != keyHeads;
    decays = stepsOf(n, n.emit("exp", {wide(4)}), keyHeads, each ? depth : 1, 1);
  }
  if (delta) {
    bool one = n.in(5).type.rank() == 3 && n.in(5).type.dims[2] == 1;
    rates = stepsOf(n, wide(5), one ? 1 : keyHeads, 1, 1);
  }
  Operand s; // [1, B, H, depth, width]
  if (n.has(3))
    s = n.reshape(wide(3), {1, q.dims[0], keyHeads, depth, width});
  llvm::SmallVector<Operand, 8> out;
  for (size_t t = 0; t < size_t(steps) && !n.failed(); ++t) {
    if (gated && s.isValid())
      s = n.emit("mul", {s, decays.at[t]});
    Operand add = vs.at[t];
    if (delta && s.isValid())
      add = n.emit("sub", {add, n.emit("matmul", {ks.at[t], s}, {{"transpose_a", true}})});
    if (delta)
      add = n.emit("mul", {add, rates.at[t]});
    add = n.emit("mul", {ks.at[t], add});
    s = s.isValid() ? n.emit("add", {s, add}) : add;
    out.push_back(n.emit("matmul", {qs.at[t], s}));
  }
  if (n.failed())
    return;
  Operand y = n.emit("concat", out, {{"axis", int64_t(0)}}); // [T, B, Hk, Hq / Hk, width]
  y = n.reshape(n.transpose(y, {1, 0, 2, 3, 4}), {q.dims[0], steps, heads * width});
  n.result(0, n.cast(y, q.dtype));
  DType stateType = n.has(3) ? n.in(3).type.dtype : q.dtype;
  n.result(1, n.cast(n.reshape(s, {q.dims[0], keyHeads, depth, width}), stateType));
}

// --- CausalConvWithState

void convertCausalConv(NodeContext &n) {
  std::string activation = n.stringAttr("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return n.fail("expects the activation none, silu or swish, got '{0}'", activation);
  const Type x = n.in(0).type, w = n.in(1).type;
  if (x.rank() != 3 || w.rank() != 3 || w.dims[0] != x.dims[1] || w.dims[1] != 1 || w.dims[2] < 1)
    return n.fail("expects an operand [N, C, L] and weights [C, 1, k], got '{0}' and '{1}'",
                  x.str(), w.str());
  int64_t past = w.dims[2] - 1;
  Operand all = n.in(0);
  if (past > 0)
    all = n.has(3) ? n.emit("concat", {n.in(3), all}, {{"axis", int64_t(2)}})
                   : n.emit("pad", {all}, {{"low", Ints{0, 0, past}}, {"high", Ints{0, 0, 0}}});
  llvm::SmallVector<Operand, 3> operands = {all, n.in(1)};
  if (n.has(2))
    operands.push_back(n.in(2));
  Operand y = n.emit("conv", operands, {{"groups", x.dims[1]}});
  if (activation != "none")
    y = n.emit("silu", {y});
  n.result(0, y);
  if (n.wants(1))
    n.result(1, n.emit("slice", {all},
                       {{"starts", Ints{0, 0, x.dims[2]}},
                        {"limits", Ints{x.dims[0], x.dims[1], x.dims[2] + past}}}));
}

constexpr OnnxOp kOps[] = {
    {"LinearAttention", 27, 3, 6, 2, convertLinearAttention},
    {"CausalConvWithState", 27, 2, 4, 2, convertCausalConv},
};

} // namespace

OpRows linearAttentionOps() { return kOps; }

} // namespace isthmus::onnx_import
