// The tensors of a model that may be parameters, with the facts that decide it.
#pragma once

#include "ir/onnx/parameters/decisions.h"
#include "ir/onnx/parameters/merged.h"
#include "ir/onnx/parameters/readers.h"
#include "ir/onnx/parameters/roles.h"

namespace isthmus::onnx_import {

// One tensor of the model: an initializer, or a copy of one.
struct Candidate {
  InitializerRole role;
  const Tensor *data = nullptr; // null if it could not be read
  llvm::StringRef ours;         // the kind in our own metadata, if any
  std::string parameter;        // its parameter in the exporter's records; may be empty
  bool followsOrigin = false;   // a reader's copy: takes the role of the original
  Decisions decisions;          // reported unless the tensor is tied to another one's parameter

  bool isFloating() const { return data && isFloat(data->type.dtype); }
};

// The number of similar tensors that are compared with one another. A file with very many tensors
// that begin and end alike must not take forever, and few tensors are derived from one.
inline constexpr size_t kMostAlike = 64;

// Keeps references to the model, its data and the options. Biases that the exporter left out are
// added to the data.
class Candidates {
public:
  // One candidate for each initializer, for each copy that a reader of a merged initializer needs,
  // and for each Identity that gives a separate tensor. Nodes of `m` may get new input names.
  // Copies are reported to `decisions`.
  Candidates(Model &m, llvm::StringMap<Tensor> &data, const OnnxOptions &options,
             Decisions &decisions);

  const Model &model() const { return model_; }
  const OnnxOptions &options() const { return options_; }
  const ExporterRecords &records() const { return records_; }
  const Readers &readers() const { return readers_; }

  std::vector<Candidate> &all() { return all_; }
  const std::vector<Candidate> &all() const { return all_; }
  Candidate *find(llvm::StringRef name); // null if there is none
  const Candidate *find(llvm::StringRef name) const {
    return const_cast<Candidates *>(this)->find(name);
  }
  std::vector<llvm::StringRef> names() const;

private:
  Candidate make(std::string name, const std::string &of, std::string parameter) const;
  void add(Candidate c);
  void addInitializers();
  void addCopies(std::vector<TensorCopy> copies, Decisions &decisions);
  void addIdentities();
  bool isSplitIdentity(const onnx::NodeProto &n, const Candidate &origin) const;

  Model &model_;
  const llvm::StringMap<Tensor> &data_;
  const OnnxOptions &options_;
  ExporterRecords records_;
  Readers readers_;
  std::vector<Candidate> all_;
  llvm::StringMap<size_t> index_; // into all_, by name
};

// Whether the node only renames its operand.
bool isIdentity(const onnx::NodeProto &n);

} // namespace isthmus::onnx_import
