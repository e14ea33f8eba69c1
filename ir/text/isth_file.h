// Graphs in `.isth` files, and their weights beside them.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Reads a graph and maps its weights, which are found from the folder of `path`. "-" is standard
// input, called
// "<stdin>" in diagnostics.
llvm::Expected<Graph> loadIsth(llvm::StringRef path);

struct SaveOptions {
  // Where large weights go. Empty: to OUT.safetensors beside OUT.isth. On standard output large
  // weights are then printed too if they are 1 MiB at most in all; more must lie in the weights
  // file that the graph was read with.
  std::string weightsPath;
};

// Data of up to this many elements stands in the text itself.
constexpr int64_t kMostInlineElements = 256;

// Writes weights first, so that a graph never names a file that is not there. A pass that changes
// an input's data clears its `key`.
llvm::Error saveIsth(const Graph &g, llvm::StringRef path, const SaveOptions &options = {});

} // namespace isthmus
