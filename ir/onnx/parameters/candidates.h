// The tensors of a model that can be parameters, each with what is known of it.
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
  llvm::StringRef ours;         // the kind that our own metadata tell
  std::string parameter;        // what the exporter's records call it; may be empty
  bool followsOrigin = false;   // a copy for one more reader
  Decisions told;               // to tell, unless it turns out to be another tensor's parameter

  bool isFloating() const { return data && isFloat(data->type.dtype); }
};

// Files with very many tensors that begin and end alike must not take for ever, and few tensors are
// made of one: this many of those that look alike are compared.
inline constexpr size_t kMostAlike = 64;

// Refers to the model, its data and the options.
class Candidates {
public:
  // One for each initializer, for each copy that a reader of a merged initializer needs, and for
  // each Identity that is more than another name. Nodes of `m` may be given other names to read.
  // `told` hears of the copies.
  Candidates(Model &m, const llvm::StringMap<Tensor> &data, const OnnxOptions &options,
             Decisions &told);

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
  void addCopies(std::vector<TensorCopy> copies, Decisions &told);
  void addIdentities();
  bool isSplitIdentity(const onnx::NodeProto &n, const Candidate &origin) const;

  Model &model_;
  const llvm::StringMap<Tensor> &data_;
  const OnnxOptions &options_;
  ExporterRecords records_;
  Readers readers_;
  std::vector<Candidate> all_;
  llvm::StringMap<size_t> index_; // of all_, by name
};

// Whether the node only gives its operand another name.
bool isIdentity(const onnx::NodeProto &n);

} // namespace isthmus::onnx_import
