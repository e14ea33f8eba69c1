// Reads ONNX models, as PyTorch's exporters and the model zoos write them, into graphs.
//
// All sizes are bound at import, so every value has a constant type, and everything that depends
// only on constants and shapes is computed here. Float initializers become parameters (see
// parameters/roles.h), batch norm's running averages become state. Names are those of the model.
// Layers keep the mode of the file, training or inference; passes/differentiate/mode.h changes it.
// This header does not depend on protobuf.
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
  // Called with each name in `dims` that the model does not leave open; if empty, that is an error.
  std::function<void(const std::string &)> lacksDim;
  // The tensor that a run will feed to the input of this name, or null if it is not known; the
  // function may be empty. Open sizes missing in `dims` are taken from the tensors' shapes. A
  // value that must be known at import, such as the shape of a Reshape, is computed from these
  // tensors, and a note names the inputs. A tensor without `data` gives only its shape.
  std::function<const Tensor *(llvm::StringRef input)> inputValue;
  ConstantFolder fold; // without it, shapes computed in the model are errors
  // `learn`: tensors that are parameters regardless of the rules (parameters/roles.h). `untie`:
  // names that become separate parameters although they stand for one tensor. `ties`: pairs of
  // names that stand for one parameter.
  std::vector<NamePattern> learn, untie;
  std::vector<std::pair<std::string, std::string>> ties;
  // Scales the fixed part of the limits on folded constants and on nodes of loops and functions
  // (the other part grows with the file). Fuzzers use a small share, so that inputs at the limits
  // stay fast.
  double allowance = 1;
  NoteSink note;                      // receives notes for the user; may be empty
  Outside outside = Outside::Refused; // where external data may lie
  std::function<void(const std::string &)>
      reads; // called with the path of each file of external data; may be empty
};

// External data must lie in the model's folder unless `outside` allows other places. Errors are
// DiagErrors located in the file, several at once. The graph's data may refer to the mapped files
// and keeps them alive.
llvm::Expected<Graph> importOnnx(const std::string &path, const OnnxOptions &options);

// The same for a model in memory; `name` stands for the file in messages. External data is an
// error.
llvm::Expected<Graph> importOnnxBytes(llvm::StringRef bytes, const std::string &name,
                                      const OnnxOptions &options);

// The open sizes of first axes, by the names that `dims` takes: the size of the first input that
// has one, and all sizes without a name in the file, which cannot be distinguished from it. Empty
// if all first sizes are numbers.
llvm::Expected<std::vector<std::string>> onnxBatchSizes(const std::string &path);

// Names of the model's inputs, except initializers.
llvm::Expected<std::vector<std::string>> onnxInputNames(const std::string &path);

} // namespace isthmus
