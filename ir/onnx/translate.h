// Translates lists of nodes into the graph: the model's own list and, in place, the bodies of
// functions, branches and loop iterations.
#pragma once

#include "ir/onnx/op_table.h"
#include "ir/onnx/scope.h"
#include "llvm/ADT/DenseSet.h"

namespace isthmus::onnx_import {

// Reports unsupported operators, once for each list of nodes.
class OperatorCheck {
public:
  OperatorCheck(const Model &m, Problems &problems) : model_(m), problems_(problems) {}

  void look(Scope &scope, const NodeList &nodes, const std::vector<bool> &live);

private:
  void lookInto(Scope &scope, const NodeList &nodes, const std::vector<bool> &live);

  const Model &model_;
  Problems &problems_;
  llvm::DenseSet<const void *> looked_; // lists already checked
};

// All unsupported operators of the model, including those in bodies that are always translated.
llvm::Error unsupportedOperators(const Model &m);

class Translator {
public:
  explicit Translator(ImportState &s)
      : s_(s), operators_(s.model, s.problems),
        nodesLeft_(int64_t(s.options.allowance * kNodesAnyway) +
                   s.model.fileBytes / kBytesPerNode) {}

  // Translates, in order, the nodes that `wanted` depends on. Their names are defined in `scope`;
  // problems are reported.
  void translate(Scope &scope, const NodeList &nodes, llvm::ArrayRef<llvm::StringRef> wanted);

  // The results of a graph held by node `n`, on `inputs`; nothing after an error, which was
  // reported. For `what` and `suffix` see Scope.
  std::optional<OperandList> translateGraph(NodeContext &n, const onnx::GraphProto &body,
                                            llvm::ArrayRef<Operand> inputs, std::string what,
                                            const std::string &suffix);

private:
  // A limit on the nodes that bodies may expand to, so that a small file cannot become a huge
  // graph.
  static constexpr int64_t kNodesAnyway = 50000, kBytesPerNode = 8;
  void convertNode(Scope &scope, const onnx::NodeProto &proto, int index);
  void convert(NodeContext &n, const OnnxOp &op);
  void convertRow(NodeContext &n, const OpDef &row); // a node of our own domain
  void call(NodeContext &n, const onnx::FunctionProto &f);
  // Counts a body's nodes; fails if it is nested too deep, or if too many nodes were expanded.
  void enter(NodeContext &n, const NodeList &nodes);
  const Operand &initializerOf(const onnx::GraphProto &body, const onnx::TensorProto &t);

  ImportState &s_;
  OperatorCheck operators_;
  int64_t nodesLeft_;
  llvm::DenseMap<const onnx::TensorProto *, Operand> initializers_; // of graphs within nodes
};

// Marks the nodes that `wanted` depends on. `read` collects all names that these nodes read.
std::vector<bool> liveNodes(const Model &m, const NodeList &nodes,
                            llvm::ArrayRef<llvm::StringRef> wanted, llvm::StringSet<> &read);

} // namespace isthmus::onnx_import
