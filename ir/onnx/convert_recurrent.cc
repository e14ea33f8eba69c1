// RNN, GRU and LSTM (opset 7 on), unrolled over the sequence, whose length is known. The input
// products of all steps are one matmul; each step adds one matmul with the state.

#include "ir/onnx/recurrent.h"

namespace isthmus::onnx_import {
namespace {

// Adds the gates' products with the state before a step. Without a state, which stands for zero,
// nothing is added.
Operand withState(NodeContext &n, const Operand &fromInput, const Operand &h, const Operand &r) {
  if (!h.isValid())
    return fromInput;
  return n.emit("add", {fromInput, n.emit("matmul", {h, r}, {{"transpose_b", true}})});
}

void stepRnn(Recurrent &net, const Direction &d, const Operand &x, State &s) {
  s.h = net.activation(d, 0, withState(net.n, x, s.h, d.r));
}

// z: update, r: reset. H = (1 - z) h + z H.
void stepGru(Recurrent &net, const Direction &d, const Operand &x, State &s) {
  NodeContext &n = net.n;
  int64_t size = net.hidden;
  auto parts = net.split(x, {2 * size, size});
  Operand gates = parts[0], fresh = parts[1];
  if (net.linearBeforeReset && s.h.isValid()) {
    auto recurrent =
        net.split(n.emit("matmul", {s.h, d.r}, {{"transpose_b", true}}), {2 * size, size});
    gates = n.emit("add", {gates, recurrent[0]});
    Operand inner = recurrent[1];
    if (d.resetBias.isValid())
      inner = n.emit("add", {inner, d.resetBias});
    auto zr = net.split(net.activation(d, 0, gates), {size, size});
    fresh = net.activation(d, 1, n.emit("add", {fresh, n.emit("mul", {zr[1], inner})}));
    gates = zr[0];
  } else {
    auto zr = net.split(net.activation(d, 0, withState(n, gates, s.h, d.r)), {size, size});
    if (s.h.isValid())
      fresh = withState(n, fresh, n.emit("mul", {zr[1], s.h}), d.rest);
    else if (net.linearBeforeReset && d.resetBias.isValid())
      fresh = n.emit("add", {fresh, n.emit("mul", {zr[1], d.resetBias})});
    fresh = net.activation(d, 1, fresh);
    gates = zr[0];
  }
  Operand off = s.h.isValid() ? n.emit("sub", {s.h, fresh}) : n.emit("neg", {fresh});
  s.h = n.emit("add", {fresh, n.emit("mul", {gates, off})});
}

// Gates in the order i (input), o (output), f (forget), c (cell).
void stepLstm(Recurrent &net, const Direction &d, const Operand &x, State &s) {
  NodeContext &n = net.n;
  int64_t size = net.hidden;
  Operand all = withState(n, x, s.h, d.r), in, out, forget, cell;
  auto look = [&](const Operand &gate, size_t p, const Operand &c) { // adds a peephole
    if (d.peepholes.empty() || !c.isValid())
      return gate;
    return n.emit("add", {gate, n.emit("mul", {d.peepholes[p], c})});
  };
  if (d.peepholes.empty()) { // one activation serves three gates
    auto parts = net.split(all, {3 * size, size});
    auto gates = net.split(net.activation(d, 0, parts[0]), {size, size, size});
    in = gates[0];
    out = gates[1];
    forget = gates[2];
    cell = parts[1];
  } else {
    auto parts = net.split(all, {size, size, size, size});
    in = net.activation(d, 0, look(parts[0], 0, s.c));
    out = parts[1];
    forget = net.activation(d, 0, look(parts[2], 2, s.c));
    cell = parts[3];
  }
  if (net.inputForget)
    forget = n.affine(in, -1, 1);
  Operand c = n.emit("mul", {in, net.activation(d, 1, cell)});
  if (s.c.isValid())
    c = n.emit("add", {n.emit("mul", {forget, s.c}), c});
  if (!d.peepholes.empty())
    out = net.activation(d, 0, look(out, 1, c));
  s.c = c;
  s.h = n.emit("mul", {out, net.activation(d, 2, c, /*clipped=*/false)});
}

void convertRnn(NodeContext &n) {
  Recurrent net(n, 1, {"Tanh"});
  net.unroll(stepRnn);
}
void convertGru(NodeContext &n) {
  Recurrent net(n, 3, {"Sigmoid", "Tanh"});
  net.unroll(stepGru);
}
void convertLstm(NodeContext &n) {
  Recurrent net(n, 4, {"Sigmoid", "Tanh", "Tanh"});
  net.unroll(stepLstm);
}

constexpr uint32_t kLengths = 1 << 4;
constexpr uint32_t kWeights = 0b10001110; // W, R, B and the peepholes of LSTM

constexpr OnnxOp kOps[] = {
    weighted(kWeights, {"RNN", 7, 3, 6, 2, convertRnn, kLengths}),
    weighted(kWeights, {"GRU", 7, 3, 6, 2, convertGru, kLengths}),
    weighted(kWeights, {"LSTM", 7, 3, 8, 3, convertLstm, kLengths}),
};

} // namespace

OpRows recurrentOps() { return kOps; }

} // namespace isthmus::onnx_import
