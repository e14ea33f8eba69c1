// The records that PyTorch's newer exporter writes beside the graph: which tensors are parameters
// and buffers, which ones were computed from them, and the parameters that each call of the program
// reads.
#pragma once

#include "ir/onnx/model.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {

class ExporterRecords {
public:
  explicit ExporterRecords(const Model &m);

  // Whether there is a graph signature; without one all other records are empty.
  bool hasSignature() const { return !kinds_.empty(); }
  // "PARAMETER", "BUFFER", "CONSTANT_TENSOR"; empty if the signature does not name the tensor.
  llvm::StringRef kindOf(llvm::StringRef name) const;
  bool isParameter(llvm::StringRef name) const { return kindOf(name) == "PARAMETER"; }
  // In the order of the signature.
  llvm::ArrayRef<std::string> parameters() const { return parameters_; }

  // Whether the optimizer recorded the tensors it folded. Older versions do not.
  bool tellsFolding() const { return !folded_.empty(); }
  // The named tensors that `name` was computed from at export, and the values in between.
  struct Folded {
    std::vector<std::string> from, between;
  };
  const Folded *foldedFrom(llvm::StringRef name) const;

  // Whether the optimizer fused several nodes into this one, such as a convolution and the batch
  // norm after it. The weights of both are merged in its operands, and no record says which.
  static bool isFused(const onnx::NodeProto &n);
  bool isOfFusedNode(llvm::StringRef name) const { return ofFused_.count(name) != 0; }

  // The parameters read by the program's call that a node stands for, without repetition, in the
  // call's order. Several nodes can stand for one call: `name` identifies it. Empty if no call is
  // recorded.
  struct Call {
    llvm::StringRef name;
    llvm::SetVector<llvm::StringRef> parameters; // point into the records
  };
  Call callBehind(const onnx::NodeProto &n) const;

  // Whether the optimizer removed an operand of zeros from the node, a bias.
  static bool hasLostBias(const onnx::NodeProto &n);
  // The parameter that is the third operand of the call behind the node: the bias of a linear layer
  // or of a convolution. Empty if there is none.
  std::string biasOf(const onnx::NodeProto &n) const;

  // The path of the innermost module that computes the node, "encoder.layers.0.linear1"; empty
  // outside of all modules and where none is recorded.
  static std::string moduleOf(const onnx::NodeProto &n);

private:
  void readSignature(llvm::StringRef text);
  // The parameter whose placeholder the text begins with; empty if there is none.
  llvm::StringRef parameterAt(llvm::StringRef text) const;

  llvm::StringMap<std::string> kinds_;   // by target
  llvm::StringMap<std::string> targets_; // by placeholder
  std::vector<std::string> parameters_;
  llvm::StringMap<Folded> folded_;
  llvm::StringSet<> ofFused_;
};

} // namespace isthmus::onnx_import
