// What graph inputs hold in a run, and where outputs go.
#pragma once

#include "ir/graph.h"
#include "runtime/executor.h"
#include <map>

namespace isthmus {

// What an input holds when no file gives it: its initializer; else drawn from the seed and the
// name, floats standard normal and integers in the range that their readers allow. Draws do not
// depend on the element type beyond rounding, so a run in f64 starts from f32 numbers. An error if
// its data was not loaded.
llvm::Expected<Tensor> defaultInput(const Graph &g, const Input &input, uint64_t seed);

// Tensors for graph inputs, by the name that a file of theirs has (`fileNames`).
struct Given {
  Tensor tensor;
  std::string from;         // for messages: the file
  bool mayBeUnused = false; // else it is an error if the graph has no such input
};
using GivenInputs = std::map<std::string, Given>;

// All `NAME.npy` in a folder; nothing for an empty path.
llvm::Expected<GivenInputs> readInputs(const std::string &dir);

// A tensor for each graph input, in order: the given one, else the default. Errors: a given one of
// another type, or one that names no input.
llvm::Expected<std::vector<Tensor>> makeInputs(const Graph &g, const GivenInputs &given,
                                               uint64_t seed);

// A value's name as a file's: what folders and drives are told by becomes '_'.
std::string fileName(llvm::StringRef name);
// The same for names that share a folder: a collision gets ".2". In the order given.
std::vector<std::string> fileNames(llvm::ArrayRef<llvm::StringRef> names);

// An error if --outputs names something that is no folder; it need not be there.
llvm::Error checkOutputsFolder(const std::string &dir);
// `NAME.npy` for every output and names.json, into a folder that is made if it is not there. Each
// file whole or not at all.
llvm::Error writeOutputs(const Graph &g, Executor &e, const std::string &dir);

} // namespace isthmus
