// The contents of graph inputs in a run, and the files for outputs.
#pragma once

#include "ir/default_input.h"
#include "ir/graph.h"
#include "runtime/session.h"
#include <map>

namespace isthmus {

// Tensors for graph inputs, by the names of their files (`fileNames`).
struct Given {
  Tensor tensor;            // none if the file is broken
  std::string from;         // for messages: the file
  bool mayBeUnused = false; // otherwise it is an error if the graph has no such input
  std::string problem;      // the error of a broken file that may be unused
};
using GivenInputs = std::map<std::string, Given>;

// Reads all files `NAME.npy` in a folder; returns nothing for an empty path. Files in subfolders
// count as "a/b", and need not name inputs.
llvm::Expected<GivenInputs> readInputs(const std::string &dir);
// The tensor for the input `name`, by this name or by that of its `file`; null if there is none.
const Given *givenFor(const GivenInputs &given, llvm::StringRef name, llvm::StringRef file);

// The tensor given for an input; null if there is none, or its file is broken.
const Tensor *tensorFor(const GivenInputs &given, llvm::StringRef input);

// An error if one of them names no input of the graph.
llvm::Error checkNames(const GivenInputs &given, const Graph &g);

// A tensor for each graph input, in order: the given one, or else the default. Errors: a given
// tensor has another type, or names no input.
llvm::Expected<std::vector<Tensor>> makeInputs(const Graph &g, const GivenInputs &given,
                                               uint64_t seed);

// Where the tensor of each input is from, for messages: "from 'in/x.npy'", "drawn with --seed=1".
std::vector<std::string> sourcesOfInputs(const Graph &g, const GivenInputs &given, uint64_t seed);

// The file name for a value's name: characters that separate folders or drives, and bytes that are
// not UTF-8, become '_'. A name too long for a file system is cut, and distinguished by its hash.
std::string fileName(llvm::StringRef name);
// The same for names that share a folder, in the order given: a collision gets ".2".
std::vector<std::string> fileNames(llvm::ArrayRef<llvm::StringRef> names);

// An error if --outputs names something other than a folder; it need not exist.
llvm::Error checkOutputsFolder(const std::string &dir);
// The files that writeOutputs would write.
std::vector<std::string> outputFiles(const Graph &g, const std::string &dir);
// Writes `NAME.npy` for every output and names.json into a folder, which is made if necessary. Each
// file is written whole or not at all.
llvm::Error writeOutputs(const Graph &g, Session &s, const std::string &dir);

} // namespace isthmus
