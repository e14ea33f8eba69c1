// Graphs in `.isth` files, and their weights beside them.
#pragma once

#include "ir/file.h"
#include "ir/graph.h"

namespace isthmus {

// Reads a graph and maps its weights file, which must lie in the folder of `path` or below, unless
// `outside` allows any place. "-" is standard input, called "<stdin>" in diagnostics; it counts as
// lying in the current folder. An error if the weights do not have the digest that the graph
// records.
llvm::Expected<Graph> loadIsth(llvm::StringRef path, Outside outside = Outside::Refused);

struct SaveOptions {
  // The file for large weights. Empty: OUT.safetensors beside OUT.isth. On standard output without
  // such a file, large weights are printed inline if they total 1 MiB at most; otherwise the text
  // refers to the weights file that the graph was read with, and weights outside of it may total 1
  // MiB.
  std::string weightsPath;
};

// Data of up to this many elements is printed inline.
constexpr int64_t kMostInlineElements = 256;

// Writes the weights file before the text, so that a graph never names a missing file. The text
// records the digest of the weights: if only one of the two files is replaced, reading them is an
// error. A pass that changes an input's data clears its `key`.
llvm::Error saveIsth(const Graph &g, llvm::StringRef path, const SaveOptions &options = {});

// The default weights file: OUT.safetensors for OUT.isth.
std::string weightsPathFor(llvm::StringRef path);

} // namespace isthmus
