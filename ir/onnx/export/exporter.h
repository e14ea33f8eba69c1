// Writes graphs as ONNX models: forward, differentiated and rewritten ones.
//
// A row that is exactly one ONNX operator becomes that operator. Every other row becomes a node of
// domain `ai.isthmus`, with a function in the model that computes it by standard operators, so that
// other tools can run it. Random draws are keyed by our generator, and a standard operator cannot
// draw the same numbers twice. Nodes that share a stream of draws therefore have no function, and a
// note says so. Facts that ONNX cannot express (phases, clones, boundaries, marks) are metadata,
// from which the importer restores the exact graph. This header does not depend on protobuf.
#pragma once

#include "ir/graph.h"
#include <functional>

namespace isthmus {

struct OnnxExportOptions {
  // Makes the data of a parameter, state or constant for which the graph has only an initializer,
  // as a run would draw it. Without it such inputs become inputs of the model.
  std::function<llvm::Expected<Tensor>(const Input &)> draw;
  std::function<void(const std::string &)> note; // receives notes for the user; may be empty
};

// The model with all data inside. An error if some data was not loaded, or if the model is too
// large for one protobuf message (2 GiB).
llvm::Expected<std::string> onnxBytes(const Graph &g, const OnnxExportOptions &options = {});

// Writes `path` atomically. If the data is over 1 MiB, tensors of 1 KiB or more are stored in a
// second file, `path`.data, which is written first.
llvm::Error saveOnnx(const Graph &g, llvm::StringRef path, const OnnxExportOptions &options = {});
std::string dataPathFor(llvm::StringRef path);

} // namespace isthmus
