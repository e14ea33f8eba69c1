// Graphs in `.isth` files, and their weights beside them.
#pragma once

#include "ir/file.h"
#include "ir/graph.h"

namespace isthmus {

// Reads a graph and maps its weights, which lie in the folder of `path` or below unless they may
// lie anywhere. "-" is standard input, called "<stdin>" in diagnostics; it counts as lying in the
// current folder. An error if the weights are not those that the graph was written with.
llvm::Expected<Graph> loadIsth(llvm::StringRef path, Outside outside = Outside::Refused);

struct SaveOptions {
  // Where large weights go. Empty: to OUT.safetensors beside OUT.isth. On standard output large
  // weights are then printed too if they are 1 MiB at most in all; more must lie in the weights
  // file that the graph was read with.
  std::string weightsPath;
};

// Data of up to this many elements stands in the text itself.
constexpr int64_t kMostInlineElements = 256;

// Weights take their place first, so that a graph never names a file that is not there. The graph
// has their digest: where they are not replaced both, reading them is an error. A pass that changes
// an input's data clears its `key`.
llvm::Error saveIsth(const Graph &g, llvm::StringRef path, const SaveOptions &options = {});

// Where they go unless another place is given: OUT.safetensors for OUT.isth.
std::string weightsPathFor(llvm::StringRef path);

} // namespace isthmus
