#include "ir/onnx/parameters/left_out.h"

#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {
namespace {

int64_t intAttr(const onnx::NodeProto &n, llvm::StringRef name, int64_t otherwise) {
  for (const onnx::AttributeProto &a : n.attribute())
    if (a.name() == name)
      return a.i();
  return otherwise;
}

// The length of a bias of the node, by its weight; 0 if it takes none.
int64_t lengthOfBias(const onnx::NodeProto &n, const Type &weight) {
  const Dims &dims = weight.dims;
  if (n.op_type() == "Gemm")
    return dims.size() == 2 ? dims[intAttr(n, "transB", 0) != 0 ? 0 : 1] : 0;
  if (dims.size() < 3)
    return 0;
  return n.op_type() == "Conv"            ? dims[0]
         : n.op_type() == "ConvTranspose" ? dims[1] * intAttr(n, "group", 1)
                                          : 0;
}

} // namespace

std::vector<std::string> restoreBiases(Model &m, const ExporterRecords &records,
                                       llvm::StringMap<Tensor> &data) {
  std::vector<std::string> restored;
  llvm::StringSet<> taken; // by what is no initializer
  for (const onnx::ValueInfoProto &v : m.graph().input())
    taken.insert(v.name());
  for (const onnx::NodeProto &n : m.graph().node())
    taken.insert(n.output().begin(), n.output().end());
  onnx::GraphProto &graph = *m.proto->mutable_graph();
  llvm::StringMap<int32_t> types; // of the initializers, as the file numbers them
  for (const onnx::TensorProto &t : graph.initializer())
    types[t.name()] = t.data_type();
  for (onnx::NodeProto &n : *graph.mutable_node()) {
    const std::string bias = ExporterRecords::hasLostBias(n) ? records.biasOf(n) : "";
    if (bias.empty() || taken.count(bias) || n.input_size() != 2)
      continue;
    const auto weight = data.find(n.input(1));
    const int64_t length = weight == data.end() ? 0 : lengthOfBias(n, weight->second.type);
    if (length == 0)
      continue;
    const Type type(weight->second.type.dtype, {length});
    const auto [at, isNew] = data.try_emplace(bias);
    if (isNew) {
      at->second = Tensor::make(type, [](char *) {});
      onnx::TensorProto &t = *graph.add_initializer();
      t.set_name(bias);
      t.set_data_type(types.lookup(n.input(1)));
      t.add_dims(length);
      restored.push_back(bias);
    } else if (at->second.type != type) {
      continue;
    }
    n.add_input(bias);
  }
  return restored;
}

} // namespace isthmus::onnx_import
