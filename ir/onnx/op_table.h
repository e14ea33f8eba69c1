// The table of ONNX operators: one row per operator and range of opsets, with its converter.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

struct OnnxOp {
  llvm::StringRef name;
  int64_t since;    // the first opset that the converter reads; an earlier row may cover older ones
  size_t minInputs; // these must be given
  size_t maxInputs;
  size_t maxOutputs;
  void (*convert)(NodeContext &); // null: `row` takes the operands unchanged
  // Operands that receive no gradient, one bit each: sizes, axes, indices, masks, statistics. An
  // initializer that is read only there is not a parameter.
  uint32_t notLearned = 0;
  llvm::StringRef row = {};
  bool takesLists = false;  // sequences and optional values are allowed as operands
  bool mayLeaveOut = false; // with any number of operands, some may be left out
  // Operands whose scalars are reshaped to vectors of one element, one bit each.
  uint32_t scalarsAsVectors = 0;
  size_t resultsLike = 0; // the results are scalars if this operand was one
  // Operands that hold weights in a network, one bit each: factors of products, filters, scales and
  // biases of convolutions and norms, tables of embeddings.
  uint32_t weights = 0;
};

constexpr size_t kAnyNumber = ~size_t(0);
constexpr uint32_t kAllOperands = ~0u;
constexpr uint32_t kAllButFirst = ~1u;

// An operator of one operand that maps to one row.
constexpr OnnxOp unary(llvm::StringRef name, llvm::StringRef row, uint32_t notLearned = 0) {
  return {name, 1, 1, 1, 1, nullptr, notLearned, row};
}

// The row for an operator that names an axis: PyTorch allows axis 0 (or -1) on a scalar, and its
// exporters write that axis to the file.
constexpr OnnxOp alsoOnScalars(OnnxOp op, uint32_t operands = 1, size_t resultsLike = 0) {
  op.scalarsAsVectors = operands;
  op.resultsLike = resultsLike;
  return op;
}

// The row with `operands` marked as weights.
constexpr OnnxOp weighted(uint32_t operands, OnnxOp op) {
  op.weights = operands;
  return op;
}

// A node's operator as the rows name it: prefixed with its domain unless that is the default one.
std::string opName(const onnx::NodeProto &n);
// The row for an operator, or null.
const OnnxOp *findOp(llvm::StringRef name, int64_t opset);
// A hint for an operator without a row: operators with similar names.
std::string nearOps(llvm::StringRef name);

// One list for each family, each in its own file.
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
