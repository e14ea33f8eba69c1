// Reads ONNX models, as PyTorch's exporters and the model zoos write them, into graphs.
//
// All sizes are bound at import, so every value has a constant type and whatever depends on
// constants and shapes alone is computed here. Float initializers become parameters (see
// parameters/roles.h), batch norm's running averages become state. Names are those of the model.
// Layers train or infer as the file says; passes/differentiate/mode.h makes them do either. No
// protobuf shows in this header.
#pragma once

#include "ir/constant_folder.h"
#include "ir/file.h"
#include "ir/graph.h"
#include "ir/name_list.h"
#include <functional>
#include <map>
#include <string>

namespace isthmus {

struct OnnxOptions {
  std::map<std::string, int64_t>
      dims; // sizes of symbolic dimensions, by name; an unnamed one is "INPUT.AXIS"
  // What whoever runs the model will feed to the input of this name; null if that is not known, or
  // empty. Open sizes that `dims` leaves are taken from the shapes, and where something must be
  // known at import, such as the shape that a Reshape reads, the inputs that it depends on become
  // constants: a note says which. Without `data` only the shape is known.
  std::function<const Tensor *(llvm::StringRef input)> inputValue;
  ConstantFolder fold; // without one, shapes computed in the model are errors
  // Tensors of the file that are parameters whatever the rules say (parameters/roles.h), names that
  // are parameters of their own although they stand for one tensor, and pairs of names that stand
  // for one parameter.
  std::vector<NamePattern> learn, untie;
  std::vector<std::pair<std::string, std::string>> ties;
  // Share of what a file of no size may ask for: constants folded, nodes of loops and functions.
  // Fuzzers take little of it, so that inputs which go to the limits do not take their time.
  double allowance = 1;
  NoteSink note;                      // is told what the user should know; may be empty
  Outside outside = Outside::Refused; // where external data may lie
  std::function<void(const std::string &)>
      reads; // is told the files of external data; may be empty
};

// External data is looked for beside the model, and only there unless it may lie outside. Errors
// are DiagErrors located in the file, several at once. The graph's data may refer to the mapped
// files for as long as it lives.
llvm::Expected<Graph> importOnnx(const std::string &path, const OnnxOptions &options);

// The same for a model in memory; `name` stands for the file in messages. External data is an
// error.
llvm::Expected<Graph> importOnnxBytes(llvm::StringRef bytes, const std::string &name,
                                      const OnnxOptions &options);

// The open sizes of first axes, by the names that `dims` takes: that of the first input that has
// one, and all that have no name in the file, which cannot be told from it. Empty where the first
// sizes are numbers.
llvm::Expected<std::vector<std::string>> onnxBatchSizes(const std::string &path);

// Names of the model's inputs, without those that are initializers.
llvm::Expected<std::vector<std::string>> onnxInputNames(const std::string &path);

} // namespace isthmus
