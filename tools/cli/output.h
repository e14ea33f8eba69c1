// Writes graphs and drawings.
#pragma once

#include "ir/graph.h"
#include "tools/cli/paths.h"

namespace isthmus {

// Checks, before any work is done, that the path ends in a format that can be written: .isth or
// .onnx, .dot or .svg. Empty and "-" are standard output; weights go to a file.
llvm::Error checkGraphPath(llvm::StringRef path, llvm::StringRef weights);
llvm::Error checkPicturePath(llvm::StringRef path);

// Adds the files that writeGraph will write: the graph, and the file for its large weights.
void addGraphPaths(CommandPaths &paths, const std::string &path, const std::string &weights);

// Writes text to standard output for "" or "-", otherwise to a file; large weights as
// docs/language.md says. Writes ONNX if the name ends so: with all weights, drawn as a run with
// seed 0 draws them.
llvm::Error writeGraph(const Graph &g, const std::string &path, const std::string &weights);
// Writes DOT, or SVG through Graphviz, by the path's suffix. "" and "-" write DOT to standard
// output.
llvm::Error writePicture(const Graph &g, llvm::ArrayRef<ValueId> checkpoints,
                         const std::string &path);
llvm::Error writePicture(const std::string &dot, const std::string &path);

} // namespace isthmus
