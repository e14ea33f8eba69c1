// A model file, parsed and checked for the properties that the importer relies on.
#pragma once

#include "ir/diagnostics.h"
#include "onnx/onnx.pb.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include <memory>
#include <string>

namespace isthmus::onnx_import {

using NodeList = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

struct Model {
  std::string file;      // for messages
  std::string folder;    // the folder for external data; empty: none is allowed
  int64_t fileBytes = 0; // memory limits are relative to it
  std::unique_ptr<onnx::ModelProto> proto;
  int64_t opset = 0; // of the default domain

  const onnx::GraphProto &graph() const { return proto->graph(); }
  std::string whereNode(int index) const; // `net.onnx: node "conv1" (Conv, #3)`
  bool isByTorch() const { return proto->producer_name() == "pytorch"; }

  // The model's own function that a node of this domain, operator and overload calls, or null.
  const onnx::FunctionProto *functionOf(const onnx::NodeProto &n) const;
  // The enclosing names that the graphs within a node read, each once.
  llvm::ArrayRef<llvm::StringRef> readsOutside(const onnx::NodeProto &n) const;

  llvm::StringMap<const onnx::FunctionProto *> functions; // by domain, name and overload
  llvm::DenseMap<const onnx::NodeProto *, std::vector<llvm::StringRef>> outside; // if not empty
};

// Parses the file, checks its versions, and checks names (see names.h), in this order.
llvm::Expected<Model> loadModel(const std::string &path);
llvm::Expected<Model> parseModel(llvm::StringRef bytes, const std::string &name);

// The newest opset that the operator table was written for. Later opsets are read the same way,
// with a note.
constexpr int64_t kNewestOpset = 27;

// Whether `domain` is ONNX's own; it has two spellings.
inline bool isDefaultDomain(llvm::StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

// The graphs in a node's attributes, such as the branches of an If.
std::vector<const onnx::GraphProto *> graphsIn(const onnx::NodeProto &n);

// `node "conv1" (Conv, #3)`
std::string nodeText(const onnx::NodeProto &n, int index);

} // namespace isthmus::onnx_import
