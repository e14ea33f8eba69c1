// What graph inputs hold in a run, and where outputs go.
#pragma once

#include "ir/graph.h"
#include "runtime/executor.h"
#include "tools/cli/default_input.h"
#include <map>

namespace isthmus {

// Tensors for graph inputs, by the name that a file of theirs has (`fileNames`).
struct Given {
  Tensor tensor;            // none if the file is broken
  std::string from;         // for messages: the file
  bool mayBeUnused = false; // else it is an error if the graph has no such input
  std::string problem;      // of a broken file that may be unused
};
using GivenInputs = std::map<std::string, Given>;

// All `NAME.npy` in a folder; nothing for an empty path. Files of folders within it count too, as
// "a/b", but need not name inputs.
llvm::Expected<GivenInputs> readInputs(const std::string &dir);
// The one for the input `name`, by this name or by that of its `file`; null if there is none.
const Given *givenFor(const GivenInputs &given, llvm::StringRef name, llvm::StringRef file);

// What is given for an input; null if nothing is, or its file is broken.
const Tensor *tensorFor(const GivenInputs &given, llvm::StringRef input);

// A tensor for each graph input, in order: the given one, else the default. Errors: a given one of
// another type, or one that names no input.
llvm::Expected<std::vector<Tensor>> makeInputs(const Graph &g, const GivenInputs &given,
                                               uint64_t seed);

// A value's name as a file's: what folders and drives are told by becomes '_', as does what is no
// UTF-8. A name too long for a file system is cut, and told from others by its hash.
std::string fileName(llvm::StringRef name);
// The same for names that share a folder: a collision gets ".2". In the order given.
std::vector<std::string> fileNames(llvm::ArrayRef<llvm::StringRef> names);

// An error if --outputs names something that is no folder; it need not be there.
llvm::Error checkOutputsFolder(const std::string &dir);
// The files that writeOutputs would write.
std::vector<std::string> outputFiles(const Graph &g, const std::string &dir);
// `NAME.npy` for every output and names.json, into a folder that is made if it is not there. Each
// file whole or not at all.
llvm::Error writeOutputs(const Graph &g, Executor &e, const std::string &dir);

} // namespace isthmus
