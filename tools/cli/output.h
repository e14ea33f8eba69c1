// Graphs and pictures as products of a verb.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Before any work is done: the path ends in a format that can be written. Empty and "-" are
// standard output.
llvm::Error checkGraphPath(llvm::StringRef path);   // .isth or .onnx
llvm::Error checkPicturePath(llvm::StringRef path); // .dot or .svg

// As text to standard output for "" or "-", else to a file; large weights as docs/language.md says.
// As ONNX if the name ends so: with all weights, drawn as a run with seed 0 draws them.
llvm::Error writeGraph(const Graph &g, const std::string &path, const std::string &weights);
// DOT, or SVG through Graphviz, by the path's ending. "" and "-" write DOT to standard output.
llvm::Error writePicture(const Graph &g, llvm::ArrayRef<ValueId> checkpoints,
                         const std::string &path);

} // namespace isthmus
