// One ONNX node during its translation: its operands, attributes and constants, and functions that
// create the nodes it is translated to.
//
// Errors are sticky, which keeps converters short: after the first error, `emit` creates nothing
// and returns invalid operands, and the driver checks for the error at the end. A converter that
// reads the type of an emitted operand must check `failed()` first; the types of the node's own
// operands are always valid.
#pragma once

#include "ir/onnx/fold.h"
#include "ir/onnx/notes.h"
#include "ir/onnx/problems.h"
#include "ir/onnx/scope.h"
#include "ir/onnx/tensor_data.h"
#include "ir/onnx/value_table.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <memory>

namespace isthmus::onnx_import {

class Translator;

// The state shared by all nodes of one import.
struct ImportState {
  const Model &model;
  const OnnxOptions &options;
  Graph &graph;
  ValueTable &values;
  Folding &folding;
  ExternalFiles &files;
  Problems &problems;
  Translator *translator = nullptr;
  // Compares the type that the file declares for a result of the model's graph with its actual
  // type.
  std::function<void(const std::string &name, const Operand &o, int node)> checkDeclared = {};
  // What had to be known at import, and what it was computed from, as the given inputs have it.
  llvm::DenseMap<ValueId, std::unique_ptr<Tensor>> decided =
      llvm::DenseMap<ValueId, std::unique_ptr<Tensor>>();
  Notes notes = {};
  // Constant nodes, and initializers of graphs within nodes, that are parameters; and the
  // parameters made of them so far. Every iteration of a loop reads the same parameter.
  const llvm::DenseSet<const void *> *otherWeights = nullptr;
  llvm::DenseMap<const void *, Operand> learned = llvm::DenseMap<const void *, Operand>();
  bool isLearned(const void *proto) const { return otherWeights && otherWeights->count(proto); }
  Operand learnedTensor(const void *proto, const std::string &name, const Tensor &data);
  // State inputs for parameters that batch norms also read as averages.
  llvm::DenseMap<ValueId, Operand> averages = llvm::DenseMap<ValueId, Operand>();
  int64_t nextStream = 0; // the next random op's stream: each op has its own
  // The latest update of each running average, in the order of their first updates.
  llvm::MapVector<ValueId, ValueId> runningAverages = {};
};

class NodeContext {
public:
  NodeContext(ImportState &state, Scope &scope, const onnx::NodeProto &proto, int index);

  ImportState &state;
  Scope &scope; // the node's scope: the model's graph, a function's body, a branch
  const onnx::NodeProto &proto;
  const int index; // in its list of nodes
  int64_t opset() const { return scope.opset; }

  // --- Errors
  template <typename... Args> void fail(const char *format, Args &&...args) {
    if (!error_)
      error_ = llvm::formatv(format, std::forward<Args>(args)...).str();
  }
  // Fails because of an error elsewhere, which was already reported there unless `why` is given.
  void failQuietly(llvm::StringRef why = "") {
    if (!error_)
      error_ = why.str();
  }
  bool failed() const { return error_.has_value(); }
  const std::string &error() const { return *error_; }

  // --- Operands. `has`: given and not left out by an empty name.
  size_t numInputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].isValid(); }
  const Operand &in(size_t i);        // an error if the operand is left out
  const Operand &any(size_t i) const; // an invalid operand if it is left out
  void expectTensors();               // fails if an operand is a list
  // Reshapes scalars among these operands to vectors of one element. If operand `resultsLike` was a
  // scalar, results of one element become scalars.
  void takeScalarsAsVectors(uint32_t operands, size_t resultsLike);
  size_t numOutputs() const { return size_t(proto.output_size()); }
  bool wants(size_t i) const { return i < numOutputs() && !proto.output(int(i)).empty(); }

  // --- Attributes: the value, or the default if it is missing. A wrong kind is an error.
  // `checkAllRead` fails for an attribute that no call has read.
  bool hasAttr(llvm::StringRef name) const { return findAttr(name) != nullptr; }
  int64_t intAttr(llvm::StringRef name, int64_t byDefault);
  double floatAttr(llvm::StringRef name, double byDefault);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef byDefault);
  std::optional<Ints> intsAttr(llvm::StringRef name);
  DType typeAttr(llvm::StringRef name, std::optional<DType> byDefault = std::nullopt); // a code
  std::optional<Tensor> tensorAttr(llvm::StringRef name);
  const onnx::AttributeProto *attr(llvm::StringRef name);         // of any kind; marks it read
  void ignoreAttrs(std::initializer_list<llvm::StringRef> names); // they have no effect here
  void checkAllRead();

  // --- Operands that must be known at import: sizes, axes, ratios. Where they depend on inputs,
  // they are those of the given values; errors name the inputs that are not given.
  const Tensor *known(size_t i); // of any number of elements; null after an error
  const Tensor *known(const Operand &o, llvm::StringRef name);
  Ints ints(size_t i);
  Floats floats(size_t i);
  double scalar(size_t i);   // one element
  int64_t integer(size_t i); // one element; an error for 1.5 and for numbers beyond 64 bits
  std::optional<Ints>
  axes(size_t i, int64_t newOpset); // operand i since `newOpset`, the attribute `axes` before
  int64_t axis(int64_t axis,
               int64_t rank); // counted from the front; an error outside [-rank, rank)
  Ints axesFromFront(Ints axes, int64_t rank); // each; an error for one named twice

  // --- New nodes. If all operands are constants, the result is a constant if it can be folded.
  Operand emit(llvm::StringRef op, llvm::ArrayRef<Operand> operands, Attrs attrs = {});
  llvm::SmallVector<Operand, 4> emitAll(llvm::StringRef op, llvm::ArrayRef<Operand> operands,
                                        Attrs attrs = {}, Phase phase = Phase::Forward);
  Operand constant(Tensor t) { return state.values.constant(std::move(t)); }
  Operand scalarConstant(DType type, double value) { return constant(scalarTensor(type, value)); }
  // All elements equal: a constant, or a node if the tensor is too large.
  Operand full(const Type &type, llvm::ArrayRef<char> one);
  Operand full(const Type &type, double value);
  Operand reshape(const Operand &x, llvm::ArrayRef<int64_t> dims);
  Operand transpose(const Operand &x, llvm::ArrayRef<int64_t> perm);
  Operand broadcast(const Operand &x, llvm::ArrayRef<int64_t> dims);
  Operand cast(const Operand &x, DType to);
  Operand affine(const Operand &x, double scale, double shift); // `x` itself for 1 and 0

  // --- Graphs within the node: their results on `inputs`, or nothing after an error. `what`
  // describes the position in messages ("then_branch", "turn 3"), `suffix` makes value names
  // distinct.
  const onnx::GraphProto *graphAttr(llvm::StringRef name); // an error if there is none
  std::optional<OperandList> translate(const onnx::GraphProto &body, llvm::ArrayRef<Operand> inputs,
                                       std::string what, const std::string &suffix = "");

  // Sets result i of the node. The value takes the model's name for it, unless the value is only
  // passed through.
  void result(size_t i, const Operand &o);

private:
  const Tensor *shortList(size_t i);
  const onnx::AttributeProto *findAttr(llvm::StringRef name) const;
  const onnx::AttributeProto *attrOfKind(llvm::StringRef name, int kind, const char *expected);

  llvm::SmallVector<Operand, 4> inputs_;
  llvm::SmallVector<llvm::StringRef, 8> read_;
  std::optional<std::string> error_;
  llvm::SmallVector<ValueId, 2> named_; // results that already have a name of the model
  bool resultsAreScalars_ = false;      // vectors of one element become scalars
  // The graph's number of values before this node. Later values were made for it.
  size_t valuesBefore_;
};

// The value of a constant of one element; nothing for any other operand.
std::optional<double> constantScalar(const Operand &o);

} // namespace isthmus::onnx_import
