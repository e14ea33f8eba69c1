// One ONNX node while it is translated: its operands, attributes and constants, and ways to make
// what it becomes.
//
// Converters are short because errors stick: after the first, `emit` makes nothing and gives
// invalid operands, and the driver asks at the end. A converter that looks at the type of something
// it emitted asks `failed()` first; the types of the node's own operands are always there.
#pragma once

#include "ir/onnx/fold.h"
#include "ir/onnx/notes.h"
#include "ir/onnx/problems.h"
#include "ir/onnx/scope.h"
#include "ir/onnx/tensor_data.h"
#include "ir/onnx/value_table.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include <set>

namespace isthmus::onnx_import {

class Translator;

// What all nodes of one import share.
struct ImportState {
  const Model &model;
  const OnnxOptions &options;
  Graph &graph;
  ValueTable &values;
  Folding &folding;
  ExternalFiles &files;
  Problems &problems;
  Translator *translator = nullptr;
  // Holds what the file says of a result of the model's graph against what it is.
  std::function<void(const std::string &name, const Operand &o, int node)> checkDeclared = {};
  // Inputs of the graph that must be known now, and whose values are given: the import is done
  // again with them as constants.
  std::set<std::string> toBind = {};
  Notes notes = {};
  // Constant nodes and initializers of graphs within nodes that are parameters, and those that have
  // been made: a loop's body reads one parameter in all of its turns.
  const llvm::DenseSet<const void *> *learnedElsewhere = nullptr;
  llvm::DenseMap<const void *, Operand> learned = llvm::DenseMap<const void *, Operand>();
  bool isLearned(const void *proto) const {
    return learnedElsewhere && learnedElsewhere->count(proto);
  }
  Operand learnedTensor(const void *proto, const std::string &name, const Tensor &data);
  // State inputs of parameters that batch norms read as averages too.
  llvm::DenseMap<ValueId, Operand> averages = llvm::DenseMap<ValueId, Operand>();
  int64_t nextStream = 0; // of random ops: each draws from its own
  // The latest average of each running average, in the order of their first update.
  llvm::MapVector<ValueId, ValueId> runningAverages = {};
};

class NodeContext {
public:
  NodeContext(ImportState &state, Scope &scope, const onnx::NodeProto &proto, int index);

  ImportState &state;
  Scope &scope; // of the node: the model's graph, a function's body, a branch
  const onnx::NodeProto &proto;
  const int index; // in its list of nodes
  int64_t opset() const { return scope.opset; }

  // --- Errors
  template <typename... Args> void fail(const char *format, Args &&...args) {
    if (!error_)
      error_ = llvm::formatv(format, std::forward<Args>(args)...).str();
  }
  // The cause was told where it is, unless `why` says that it was not.
  void failAfterTold(llvm::StringRef why = "") {
    if (!error_)
      error_ = why.str();
  }
  bool failed() const { return error_.has_value(); }
  const std::string &error() const { return *error_; }

  // --- Operands. `has`: given and not left out by an empty name.
  size_t numInputs() const { return inputs_.size(); }
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i].isValid(); }
  const Operand &in(size_t i);        // an error if it is left out
  const Operand &any(size_t i) const; // an invalid one if it is left out
  void expectTensors();               // an error for an operand that is a list
  // Scalars among these operands become vectors of one element, and the results that are such
  // vectors scalars, where operand `resultsLike` was one.
  void takeScalarsAsVectors(uint32_t operands, size_t resultsLike);
  size_t numOutputs() const { return size_t(proto.output_size()); }
  bool wants(size_t i) const { return i < numOutputs() && !proto.output(int(i)).empty(); }

  // --- Attributes: the value, or the default where there is none. A wrong kind is an error, and so
  // is, in `checkAllRead`, an attribute that nobody asked for.
  bool hasAttr(llvm::StringRef name) const { return findAttr(name) != nullptr; }
  int64_t intAttr(llvm::StringRef name, int64_t byDefault);
  double floatAttr(llvm::StringRef name, double byDefault);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef byDefault);
  std::optional<Ints> intsAttr(llvm::StringRef name);
  DType typeAttr(llvm::StringRef name, std::optional<DType> byDefault = std::nullopt); // a code
  std::optional<Tensor> tensorAttr(llvm::StringRef name);
  const onnx::AttributeProto *attr(llvm::StringRef name); // whatever its kind; marks it read
  void ignoreAttrs(std::initializer_list<llvm::StringRef> names); // known to change nothing here
  void checkAllRead();

  // --- Operands that must be known now: sizes, axes, ratios. Errors say where they come from.
  const Tensor *known(size_t i); // of any size; null after an error
  const Tensor *known(const Operand &o, llvm::StringRef name);
  Ints ints(size_t i);
  Floats floats(size_t i);
  double scalar(size_t i);   // one element
  int64_t integer(size_t i); // one element; an error for 1.5 and for what 64 bits do not hold
  std::optional<Ints>
  axes(size_t i, int64_t newOpset); // operand i since `newOpset`, the attribute `axes` before
  int64_t axis(int64_t axis,
               int64_t rank); // counted from the front; an error outside [-rank, rank)
  Ints axesFromFront(Ints axes, int64_t rank); // each so; an error for one named twice

  // --- Making things. With constant operands alone the result is a constant, if that can be had.
  Operand emit(llvm::StringRef op, llvm::ArrayRef<Operand> operands, Attrs attrs = {});
  llvm::SmallVector<Operand, 4> emitAll(llvm::StringRef op, llvm::ArrayRef<Operand> operands,
                                        Attrs attrs = {}, Phase phase = Phase::Forward);
  Operand constant(Tensor t) { return state.values.constant(std::move(t)); }
  Operand scalarConstant(DType type, double value) { return constant(scalarTensor(type, value)); }
  // One element throughout: a constant, or a node if that is too large.
  Operand full(const Type &type, llvm::ArrayRef<char> one);
  Operand full(const Type &type, double value);
  Operand reshape(const Operand &x, llvm::ArrayRef<int64_t> dims);
  Operand transpose(const Operand &x, llvm::ArrayRef<int64_t> perm);
  Operand broadcast(const Operand &x, llvm::ArrayRef<int64_t> dims);
  Operand cast(const Operand &x, DType to);
  Operand affine(const Operand &x, double scale, double shift); // `x` itself for 1 and 0

  // --- Graphs within the node: their results on `inputs`, or nothing after an error. `what` tells
  // where it is in messages ("then_branch", "turn 3"), `suffix` names its values apart.
  const onnx::GraphProto *graphAttr(llvm::StringRef name); // an error if there is none
  std::optional<OperandList> translate(const onnx::GraphProto &body, llvm::ArrayRef<Operand> inputs,
                                       std::string what, const std::string &suffix = "");

  // Result i of the node. It takes the model's name, unless it is another value passed through.
  void result(size_t i, const Operand &o);

private:
  const Tensor *shortList(size_t i);
  const onnx::AttributeProto *findAttr(llvm::StringRef name) const;
  const onnx::AttributeProto *attrOfKind(llvm::StringRef name, int kind, const char *expected);

  llvm::SmallVector<Operand, 4> inputs_;
  llvm::SmallVector<llvm::StringRef, 8> read_;
  std::optional<std::string> error_;
  llvm::SmallVector<ValueId, 2> named_; // results that have their names
  bool resultsAreScalars_ = false;      // what is a vector of one element
  size_t valuesBefore_;                 // of the graph: values from here on were made for this node
};

// Whether `o` is a constant of one element; its value.
std::optional<double> constantScalar(const Operand &o);

} // namespace isthmus::onnx_import
