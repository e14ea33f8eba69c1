// What PyTorch's newer exporter records in a file beside the graph: which tensors are parameters
// and buffers, from which of them it computed others, and what each node read in the program.
#pragma once

#include "ir/onnx/model.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {

class ExporterRecords {
public:
  explicit ExporterRecords(const Model &m);

  // Whether there is a graph signature; without one the rest is empty.
  bool hasSignature() const { return !kinds_.empty(); }
  // "PARAMETER", "BUFFER", "CONSTANT_TENSOR"; empty for what the signature does not name.
  llvm::StringRef kindOf(llvm::StringRef name) const;
  bool isParameter(llvm::StringRef name) const { return kindOf(name) == "PARAMETER"; }
  // In the order of the signature.
  llvm::ArrayRef<std::string> parameters() const { return parameters_; }

  // Whether the optimizer told what it folded. Older versions do not.
  bool tellsFolding() const { return !folded_.empty(); }
  // The named tensors that `name` was computed from at export, and the values in between.
  struct Folded {
    std::vector<std::string> from, between;
  };
  const Folded *foldedFrom(llvm::StringRef name) const;

  // Whether the optimizer made the node of several, such as a convolution and the batch norm behind
  // it: the weights of both are in there, and no record says which.
  static bool isFused(const onnx::NodeProto &n);
  bool isOfFusedNode(llvm::StringRef name) const { return ofFused_.count(name) != 0; }

  // The parameters that the program's call behind a node reads, each once, in its order. Several
  // nodes can stand for one call: `call` tells them apart. Empty where it is not recorded.
  struct Call {
    llvm::StringRef name;
    llvm::SetVector<llvm::StringRef> parameters; // refer to the records
  };
  Call callBehind(const onnx::NodeProto &n) const;

private:
  void readSignature(llvm::StringRef text);

  llvm::StringMap<std::string> kinds_;   // by target
  llvm::StringMap<std::string> targets_; // by placeholder
  std::vector<std::string> parameters_;
  llvm::StringMap<Folded> folded_;
  llvm::StringSet<> ofFused_;
};

} // namespace isthmus::onnx_import
