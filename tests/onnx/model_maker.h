// Builds small ONNX models for tests from the protobuf messages.
#pragma once

#include "ir/onnx/import.h"
#include "onnx/onnx.pb.h"
#include <string>
#include <variant>
#include <vector>

namespace isthmus {

class ModelMaker {
public:
  using Dim = std::variant<int, const char *>; // a number or a symbol
  using Values = std::vector<double>;
  using AttrValue = std::variant<int, double, const char *, std::vector<int64_t>>;
  using AttrItem = std::pair<std::string, AttrValue>;

  explicit ModelMaker(int64_t opset = 17);

  onnx::ModelProto model;
  onnx::GraphProto &graph() { return *model.mutable_graph(); }

  ModelMaker &input(const std::string &name, std::vector<Dim> dims,
                    int type = onnx::TensorProto::FLOAT);
  ModelMaker &output(const std::string &name);
  // The type is float, int64, uint8 or bool. Without values, the elements are 0, 1, 2, ...
  onnx::TensorProto &init(const std::string &name, std::vector<int64_t> dims, Values values = {},
                          int type = onnx::TensorProto::FLOAT);
  onnx::NodeProto &node(const std::string &op, std::vector<std::string> in,
                        std::vector<std::string> out, std::vector<AttrItem> attrs = {});
  // Adds a Constant node.
  onnx::NodeProto &constant(const std::string &name, std::vector<int64_t> dims, Values values,
                            int type = onnx::TensorProto::FLOAT);

  std::string bytes() const { return model.SerializeAsString(); }
  // Imports the model under the name "m.onnx". The plain kernels fold constants, unless `options`
  // say otherwise.
  llvm::Expected<Graph> import(OnnxOptions options = {}) const;
  Graph graphOf(OnnxOptions options = {}) const;       // must import, and verify
  std::string errorOf(OnnxOptions options = {}) const; // the import's error
};

onnx::TensorProto tensorProto(std::vector<int64_t> dims, ModelMaker::Values values, int type);

// Runs a graph with the plain kernels on the inputs that `inputs` names. Other inputs have their
// initializers' values.
std::vector<Tensor> outputsOf(const Graph &g, const std::map<std::string, Tensor> &inputs);
Tensor floats(std::vector<int64_t> dims, ModelMaker::Values values);
std::vector<double> numbers(const Tensor &t);

// The rows of a graph's nodes, in order: "conv add relu".
std::string rowsOf(const Graph &g);
// The inputs of one kind: "w:f32[2, 3] b:f32[3]".
std::string inputsOf(const Graph &g, InputKind kind);

} // namespace isthmus
