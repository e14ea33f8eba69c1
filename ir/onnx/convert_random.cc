// Random numbers. A `seed` in the file is ignored: draws are keyed by the run's seed and the node's
// own stream.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

int64_t newStream(NodeContext &n) { return n.state.nextStream++; }

void ignoreSeed(NodeContext &n) {
  if (n.hasAttr("seed"))
    n.state.notes.add(
        "seeds of random operators are not used: draws are keyed by the run's seed and "
        "each operator's own stream");
  n.ignoreAttrs({"seed"});
}

// A dropout written for inference stays a node, so that the graph can be made to train. Result 1 is
// the mask of kept elements: a tensor of ones, dropped by the same draws.
void drop(NodeContext &n, double ratio, bool training, DType maskType) {
  const Type &x = n.in(0).type;
  bool drops = ratio != 0;
  Attrs attrs;
  if (drops)
    attrs = {{"ratio", ratio}, {"stream", newStream(n)}, {"training", training}};
  n.result(0, drops ? n.emit("dropout", {n.in(0)}, attrs) : n.in(0));
  if (!n.wants(1) || n.failed())
    return;
  Operand mask = n.full(x.with(drops ? x.dtype : maskType), 1);
  if (drops) // to bool first: kept elements are above one
    mask = n.cast(n.cast(n.emit("dropout", {mask}, attrs), DType::Bool), maskType);
  n.result(1, mask);
}

// Below opset 12 there is no training mode, so the node is for inference. Below opset 10 masks have
// the operand's type.
void convertDropout7(NodeContext &n) {
  ignoreSeed(n);
  drop(n, n.floatAttr("ratio", 0.5), /*training=*/false,
       n.opset() < 10 ? n.in(0).type.dtype : DType::Bool);
}

void convertDropout(NodeContext &n) {
  ignoreSeed(n);
  bool training = n.has(2) && n.scalar(2) != 0;
  double ratio = n.has(1) ? n.scalar(1) : 0.5;
  if (!n.failed())
    drop(n, ratio, training, DType::Bool);
}

void random(NodeContext &n, const char *row, const Ints &dims, DType byDefault,
            llvm::StringRef first, double firstValue, llvm::StringRef second, double secondValue,
            llvm::StringRef secondInRow) {
  ignoreSeed(n);
  Attrs attrs{{"dims", dims},
              {"type", dtypeName(n.typeAttr("dtype", byDefault)).str()},
              {"stream", newStream(n)}};
  attrs.set(first, n.floatAttr(first, firstValue));
  attrs.set(secondInRow, n.floatAttr(second, secondValue));
  n.result(0, n.emit(row, {}, std::move(attrs)));
}
void uniform(NodeContext &n, const Ints &dims, DType type) {
  random(n, "uniform", dims, type, "low", 0, "high", 1, "high");
}
void normal(NodeContext &n, const Ints &dims, DType type) {
  random(n, "normal", dims, type, "mean", 0, "scale", 1, "std");
}

Ints dimsOf(const Operand &o) { return Ints(o.type.dims.begin(), o.type.dims.end()); }
Ints shapeAttr(NodeContext &n) { return n.intsAttr("shape").value_or(Ints()); }

void convertRandomUniformLike(NodeContext &n) { uniform(n, dimsOf(n.in(0)), n.in(0).type.dtype); }
void convertRandomNormalLike(NodeContext &n) { normal(n, dimsOf(n.in(0)), n.in(0).type.dtype); }
void convertRandomUniform(NodeContext &n) { uniform(n, shapeAttr(n), DType::F32); }
void convertRandomNormal(NodeContext &n) { normal(n, shapeAttr(n), DType::F32); }

// One with the probability that the operand's element gives.
void convertBernoulli(NodeContext &n) {
  ignoreSeed(n);
  const Type &x = n.in(0).type;
  DType type = n.typeAttr("dtype", x.dtype);
  Operand draw = n.emit(
      "uniform", {},
      {{"dims", dimsOf(n.in(0))}, {"type", dtypeName(x.dtype).str()}, {"stream", newStream(n)}});
  n.result(0, n.cast(n.emit("less", {draw, n.in(0)}), type));
}

// Classes drawn with the probabilities softmax(x) of each row: the largest of x - log(-log(u)) for
// uniform u (Gumbel 1954).
void convertMultinomial(NodeContext &n) {
  ignoreSeed(n);
  int64_t samples = n.intAttr("sample_size", 1);
  const Type &x = n.in(0).type;
  if (x.rank() != 2 || samples < 1)
    return n.fail("expects an operand of rank 2 and a sample_size of 1 or more, got '{0}' and {1}",
                  x.str(), samples);
  DType type = n.typeAttr("dtype", DType::I32);
  Operand u = n.emit("uniform", {},
                     {{"dims", Ints{x.dims[0], samples, x.dims[1]}},
                      {"type", dtypeName(x.dtype).str()},
                      {"stream", newStream(n)}});
  auto minusLog = [&](const Operand &v) { return n.emit("neg", {n.emit("log", {v})}); };
  Operand noise = minusLog(minusLog(u));
  Operand logits = n.reshape(n.in(0), {x.dims[0], 1, x.dims[1]});
  Operand drawn = n.emit("argmax", {n.emit("add", {logits, noise})}, {{"axis", int64_t(2)}});
  n.result(0, n.cast(drawn, type));
}

constexpr OnnxOp kOps[] = {
    {"Dropout", 7, 1, 1, 2, convertDropout7},
    {"Dropout", 12, 1, 3, 2, convertDropout, kAllButFirst},
    {"RandomUniformLike", 1, 1, 1, 1, convertRandomUniformLike, kAllOperands},
    {"RandomNormalLike", 1, 1, 1, 1, convertRandomNormalLike, kAllOperands},
    {"RandomUniform", 1, 0, 0, 1, convertRandomUniform},
    {"RandomNormal", 1, 0, 0, 1, convertRandomNormal},
    {"Multinomial", 7, 1, 1, 1, convertMultinomial, kAllOperands},
    {"Bernoulli", 15, 1, 1, 1, convertBernoulli, kAllOperands},
};

} // namespace

OpRows randomOps() { return kOps; }

} // namespace isthmus::onnx_import
