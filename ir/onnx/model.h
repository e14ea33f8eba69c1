// A model file, parsed and checked for what every later step relies on.
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
  std::string folder;    // where external data may lie; empty: nowhere
  int64_t fileBytes = 0; // what limits on memory are relative to
  std::unique_ptr<onnx::ModelProto> proto;
  int64_t opset = 0; // of the default domain

  const onnx::GraphProto &graph() const { return proto->graph(); }
  std::string whereNode(int index) const; // `net.onnx: node "conv1" (Conv, #3)`
  bool isByTorch() const { return proto->producer_name() == "pytorch"; }

  // The model's own function that a node of this domain, operator and overload calls, or null.
  const onnx::FunctionProto *functionOf(const onnx::NodeProto &n) const;
  // The names outside of it that the graphs within a node read, each once.
  llvm::ArrayRef<llvm::StringRef> readsOutside(const onnx::NodeProto &n) const;

  llvm::StringMap<const onnx::FunctionProto *> functions; // by domain, name and overload
  llvm::DenseMap<const onnx::NodeProto *, std::vector<llvm::StringRef>> outside; // where not empty
};

// In order: parses, checks versions, and that every name is defined once and before it is read, in
// the graph, in the graphs within its nodes and in the functions.
llvm::Expected<Model> loadModel(const std::string &path);
llvm::Expected<Model> parseModel(llvm::StringRef bytes, const std::string &name);

// The newest opset whose operators the table was written for. Later ones are read alike, with a
// note.
constexpr int64_t kNewestOpset = 27;

// Whether `domain` is ONNX's own, which has two spellings.
inline bool isDefaultDomain(llvm::StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

// The graphs that a node's attributes hold, as the branches of an If.
std::vector<const onnx::GraphProto *> graphsIn(const onnx::NodeProto &n);

// `node "conv1" (Conv, #3)`
std::string nodeText(const onnx::NodeProto &n, int index);

} // namespace isthmus::onnx_import
