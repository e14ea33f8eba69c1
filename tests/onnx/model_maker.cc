#include "tests/onnx/model_maker.h"

#include "ir/verifier.h"
#include "kernels/fold.h"
#include "tools/random/draw.h"
#include <cstring>
#include <gtest/gtest.h>

namespace isthmus {
namespace {

template <typename T> std::string packed(const ModelMaker::Values &values) {
  std::string raw;
  for (double d : values) {
    T v = static_cast<T>(d);
    raw.append(reinterpret_cast<const char *>(&v), sizeof v);
  }
  return raw;
}

} // namespace

onnx::TensorProto tensorProto(std::vector<int64_t> dims, ModelMaker::Values values, int type) {
  onnx::TensorProto t;
  t.set_data_type(type);
  int64_t n = 1;
  for (int64_t d : dims) {
    t.add_dims(d);
    n *= d;
  }
  if (values.empty())
    for (int64_t i = 0; i < n; ++i)
      values.push_back(double(i));
  t.set_raw_data(type == onnx::TensorProto::INT64   ? packed<int64_t>(values)
                 : type == onnx::TensorProto::BOOL  ? packed<bool>(values)
                 : type == onnx::TensorProto::UINT8 ? packed<uint8_t>(values)
                                                    : packed<float>(values));
  return t;
}

ModelMaker::ModelMaker(int64_t opset) {
  model.set_ir_version(8);
  model.add_opset_import()->set_version(opset);
  graph().set_name("test");
}

ModelMaker &ModelMaker::input(const std::string &name, std::vector<Dim> dims, int type) {
  onnx::ValueInfoProto &v = *graph().add_input();
  v.set_name(name);
  auto &t = *v.mutable_type()->mutable_tensor_type();
  t.set_elem_type(type);
  t.mutable_shape();
  for (const Dim &d : dims) {
    auto &dim = *t.mutable_shape()->add_dim();
    if (auto *n = std::get_if<int>(&d))
      dim.set_dim_value(*n);
    else
      dim.set_dim_param(std::get<const char *>(d));
  }
  return *this;
}

ModelMaker &ModelMaker::output(const std::string &name) {
  graph().add_output()->set_name(name);
  return *this;
}

onnx::TensorProto &ModelMaker::init(const std::string &name, std::vector<int64_t> dims,
                                    Values values, int type) {
  onnx::TensorProto &t = *graph().add_initializer();
  t = tensorProto(std::move(dims), std::move(values), type);
  t.set_name(name);
  return t;
}

onnx::NodeProto &ModelMaker::node(const std::string &op, std::vector<std::string> in,
                                  std::vector<std::string> out, std::vector<AttrItem> attrs) {
  onnx::NodeProto &n = *graph().add_node();
  n.set_op_type(op);
  n.set_name("n" + std::to_string(graph().node_size() - 1));
  for (std::string &s : in)
    n.add_input(std::move(s));
  for (std::string &s : out)
    n.add_output(std::move(s));
  for (auto &[name, value] : attrs) {
    onnx::AttributeProto &a = *n.add_attribute();
    a.set_name(name);
    if (auto *i = std::get_if<int>(&value)) {
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(*i);
    } else if (auto *f = std::get_if<double>(&value)) {
      a.set_type(onnx::AttributeProto::FLOAT);
      a.set_f(float(*f));
    } else if (auto *s = std::get_if<const char *>(&value)) {
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s(*s);
    } else {
      a.set_type(onnx::AttributeProto::INTS);
      for (int64_t i : std::get<std::vector<int64_t>>(value))
        a.add_ints(i);
    }
  }
  return n;
}

onnx::NodeProto &ModelMaker::constant(const std::string &name, std::vector<int64_t> dims,
                                      Values values, int type) {
  onnx::NodeProto &n = node("Constant", {}, {name});
  onnx::AttributeProto &a = *n.add_attribute();
  a.set_name("value");
  a.set_type(onnx::AttributeProto::TENSOR);
  *a.mutable_t() = tensorProto(std::move(dims), std::move(values), type);
  return n;
}

llvm::Expected<Graph> ModelMaker::import(OnnxOptions options) const {
  if (!options.fold)
    options.fold = foldWithPlainKernels;
  return importOnnxBytes(bytes(), "m.onnx", options);
}

Graph ModelMaker::graphOf(OnnxOptions options) const {
  auto g = import(std::move(options));
  if (!g) {
    ADD_FAILURE() << llvm::toString(g.takeError());
    return Graph();
  }
  if (llvm::Error e = verify(*g))
    ADD_FAILURE() << llvm::toString(std::move(e));
  return std::move(*g);
}

std::string ModelMaker::errorOf(OnnxOptions options) const {
  auto g = import(std::move(options));
  if (!g)
    return llvm::toString(g.takeError());
  ADD_FAILURE() << "imported, though an error was expected";
  return "";
}

std::vector<Tensor> outputsOf(const Graph &g, const std::map<std::string, Tensor> &inputs) {
  std::vector<Tensor> values(g.numValues());
  for (const Input &in : g.inputs()) {
    auto given = inputs.find(g.valueName(in.value).str());
    const Type &type = g.type(in.value);
    if (given != inputs.end())
      values[in.value.index] = given->second;
    else if (in.init.kind == Initializer::Kind::Fill)
      values[in.value.index] = fromDoubles(
          type, std::vector<double>(size_t(type.elements()), in.init.args.getFloat("value")));
    else
      values[in.value.index] = in.init.data;
  }
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    llvm::SmallVector<Tensor, 4> operands;
    for (ValueId v : n.operands)
      operands.push_back(values[v.index]);
    auto results = foldWithPlainKernels(g.call(NodeId(i)), operands);
    if (!results) {
      ADD_FAILURE() << llvm::toString(results.takeError());
      return {};
    }
    for (uint32_t r = 0; r < n.numResults; ++r)
      values[n.result(r).index] = (*results)[r];
  }
  std::vector<Tensor> out;
  for (ValueId v : g.outputs())
    out.push_back(values[v.index]);
  return out;
}

Tensor floats(std::vector<int64_t> dims, ModelMaker::Values values) {
  return Tensor::make(Type(DType::F32, dims), [&](char *out) {
    std::string raw = packed<float>(values);
    std::memcpy(out, raw.data(), raw.size());
  });
}

std::vector<double> numbers(const Tensor &t) { return toDoubles(t); }

std::string rowsOf(const Graph &g) {
  std::string s;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    s += (i ? " " : "") + g.node(NodeId(i)).op->name;
  return s;
}

std::string inputsOf(const Graph &g, InputKind kind) {
  std::string s;
  for (const Input &in : g.inputs())
    if (in.kind == kind)
      s += (s.empty() ? "" : " ") + g.valueName(in.value).str() + ":" + g.type(in.value).str();
  return s;
}

} // namespace isthmus
