// A model file, parsed and checked for what every later step relies on.
#pragma once

#include "ir/diagnostics.h"
#include "onnx/onnx.pb.h"
#include <memory>
#include <string>

namespace isthmus::onnx_import {

struct Model {
  std::string file;      // for messages
  std::string folder;    // where external data may lie; empty: nowhere
  int64_t fileBytes = 0; // what limits on memory are relative to
  std::unique_ptr<onnx::ModelProto> proto;
  int64_t opset = 0; // of the default domain

  const onnx::GraphProto &graph() const { return proto->graph(); }
  std::string whereNode(int index) const; // `net.onnx: node "conv1" (Conv, #3)`
};

// In order: parses, checks versions, and that every name is defined once and before it is read.
llvm::Expected<Model> loadModel(const std::string &path);
llvm::Expected<Model> parseModel(llvm::StringRef bytes, const std::string &name);

// Whether `domain` is ONNX's own, which has two spellings.
inline bool isDefaultDomain(llvm::StringRef domain) {
  return domain.empty() || domain == "ai.onnx";
}

} // namespace isthmus::onnx_import
