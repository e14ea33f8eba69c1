// Writes graphs as ONNX models: forward, differentiated and rewritten ones.
//
// A row that is one ONNX operator becomes that operator. Every other row becomes a node of domain
// `ai.isthmus`, with a function in the model that computes it by standard operators, so that other
// tools can run it. Draws of random numbers are keyed by our generator and have no standard form:
// such nodes have no function, which a note tells. What ONNX has no word for (phases, clones,
// boundaries, marks) is metadata, by which the importer reads back the very graph. No protobuf
// shows in this header.
#pragma once

#include "ir/graph.h"
#include <functional>

namespace isthmus {

struct OnnxExportOptions {
  // The data of a parameter, state or constant that the graph only tells how to draw, as a run
  // would draw it. Without it such inputs become inputs of the model.
  std::function<llvm::Expected<Tensor>(const Input &)> draw;
  std::function<void(const std::string &)> note; // is told what the user should know; may be empty
};

// The model with all data within it. An error if some data was not loaded, or if it is too large
// for one protobuf message (2 GiB).
llvm::Expected<std::string> onnxBytes(const Graph &g, const OnnxExportOptions &options = {});

// Writes `path`, whole or not at all. Where the data is over 1 MiB, tensors of 1 KiB or more lie in
// a file beside it, `path`.data, which is written first.
llvm::Error saveOnnx(const Graph &g, llvm::StringRef path, const OnnxExportOptions &options = {});
std::string dataPathFor(llvm::StringRef path);

} // namespace isthmus
