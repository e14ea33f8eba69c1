// Which ONNX operator is translated by what: one row per operator and range of versions.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

struct OnnxOp {
  llvm::StringRef name;
  int64_t since;    // the first opset that the converter reads; an earlier row may cover older ones
  size_t minInputs; // these must not be left out
  size_t maxInputs;
  size_t maxOutputs;
  void (*convert)(NodeContext &); // null: `row` takes the operands as they are
  // Operands that no gradient flows into, one bit each: sizes, axes, indices, masks, statistics. An
  // initializer that is read only there is no parameter.
  uint32_t notLearned = 0;
  llvm::StringRef row = {};
  bool takesLists = false;  // sequences and optional values are operands too
  bool mayLeaveOut = false; // of any number of operands
  // Operands, one bit each, of which a scalar is taken as a vector of one element.
  uint32_t scalarsAsVectors = 0;
  size_t resultsLike = 0; // the results are scalars where this operand was one
  // Operands that hold weights in a network, one bit each: factors of products, filters, scales and
  // biases of convolutions and norms, tables of embeddings.
  uint32_t weights = 0;
};

constexpr size_t kAnyNumber = ~size_t(0);
constexpr uint32_t kAllOperands = ~0u;
constexpr uint32_t kAllButFirst = ~1u;

// An operator of one operand that is a row as it is.
constexpr OnnxOp unary(llvm::StringRef name, llvm::StringRef row, uint32_t notLearned = 0) {
  return {name, 1, 1, 1, 1, nullptr, notLearned, row};
}

// The row for operators that name an axis: PyTorch lets a scalar have axis 0 (or -1), and its
// exporters write that axis down.
constexpr OnnxOp alsoOnScalars(OnnxOp op, uint32_t operands = 1, size_t resultsLike = 0) {
  op.scalarsAsVectors = operands;
  op.resultsLike = resultsLike;
  return op;
}

// The row with these operands as weights.
constexpr OnnxOp weighted(uint32_t operands, OnnxOp op) {
  op.weights = operands;
  return op;
}

// A node's operator, as rows name it: after its domain where that is not the default one.
std::string opName(const onnx::NodeProto &n);
// The row for an operator, or null.
const OnnxOp *findOp(llvm::StringRef name, int64_t opset);
// What to say of an operator that has no row: names near it.
std::string nearOps(llvm::StringRef name);

// Families, one file each.
using OpRows = llvm::ArrayRef<OnnxOp>;
OpRows elementwiseOps(); // convert_elementwise.cc
OpRows constantOps();
OpRows shapeOps();
OpRows indexingOps();
OpRows reduceOps();
OpRows matmulOps();
OpRows convOps();
OpRows poolOps();
OpRows normOps();
OpRows softmaxOps();
OpRows lossOps();
OpRows recurrentOps();
OpRows linearAttentionOps();
OpRows optimizerOps();
OpRows randomOps();
OpRows attentionOps();
OpRows resizeOps();
OpRows padOps();
OpRows gridOps();
OpRows deformOps();
OpRows roiOps();
OpRows signalOps();
OpRows controlOps();
OpRows sequenceOps();
OpRows mathOps();
OpRows activationOps();
OpRows scatterOps();
OpRows orderOps();
OpRows einsumOps();

} // namespace isthmus::onnx_import
