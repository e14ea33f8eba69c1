// The import, from a parsed model to a graph: sizes are bound, initializers sorted into parameters,
// state and constants, nodes translated in order, outputs named.

#include "ir/onnx/import.h"

#include "ir/onnx/op_table.h"
#include "ir/onnx/parameters.h"
#include "ir/onnx/problems.h"
#include "ir/onnx/symbols.h"
#include "ir/op_registry.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus {
namespace onnx_import {
namespace {

class Import {
public:
  Import(Model &m, const OnnxOptions &options)
      : m_(m), options_(options), g_(m.graph().name().empty() ? "main" : m.graph().name()),
        values_(g_), folding_(options.fold, m.fileBytes),
        files_(m.folder), state_{m, options, g_, values_, folding_, files_} {}

  llvm::Expected<Graph> run();

private:
  void findLive();
  void findUnsupported();
  void defineInputs(const std::vector<BoundInput> &inputs);
  void defineInitializers();
  void defineInitializer(const InitializerRole &r, const Tensor &data);
  void convertNode(int index);
  void checkDeclared(const std::string &name, const Type &type, const std::string &where);
  void addOutputs();
  void addNewAverages();
  std::string whereNode(int i) const { return m_.whereNode(i); }

  Model &m_;
  const OnnxOptions &options_;
  Graph g_;
  ValueTable values_;
  Folding folding_;
  ExternalFiles files_;
  ImportState state_;
  Problems problems_;
  bool hadSymbols_ = false;
  llvm::StringSet<> live_; // names that some output depends on
  std::vector<bool> liveNodes_;
  llvm::StringSet<> defined_; // names of initializers and their copies: their Identities are done
  llvm::StringMap<const onnx::ValueInfoProto *> declared_;
};

// --- What is to be translated

void Import::findLive() {
  const onnx::GraphProto &g = m_.graph();
  for (const onnx::ValueInfoProto &v : g.output())
    live_.insert(v.name());
  liveNodes_.assign(size_t(g.node_size()), false);
  for (int i = g.node_size() - 1; i >= 0; --i) {
    const onnx::NodeProto &n = g.node(i);
    bool live = false;
    for (const std::string &out : n.output())
      live |= !out.empty() && live_.count(out);
    if (!live)
      continue;
    liveNodes_[size_t(i)] = true;
    for (const std::string &in : n.input())
      live_.insert(in);
  }
}

void Import::findUnsupported() {
  for (int i = 0; i < m_.graph().node_size(); ++i) {
    const onnx::NodeProto &n = m_.graph().node(i);
    if (!liveNodes_[size_t(i)])
      continue;
    if (!isDefaultDomain(n.domain()))
      problems_.add(whereNode(i), n.op_type(),
                    "operator '" + n.op_type() + "' of domain '" + n.domain() +
                        "' is not supported");
    else if (!findOp(n.op_type(), m_.opset))
      problems_.add(whereNode(i), n.op_type(),
                    "operator '" + n.op_type() + "' of opset " + std::to_string(m_.opset) +
                        " is not supported" + (problems_.full() ? "" : nearOps(n.op_type())));
  }
}

// --- Inputs and initializers

void Import::defineInputs(const std::vector<BoundInput> &inputs) {
  for (const BoundInput &in : inputs) {
    auto v = g_.addInput(InputKind::Input, in.name, in.type);
    if (!v) {
      problems_.add(v.takeError(), m_.file);
      continue;
    }
    values_.define(in.name, values_.value(*v));
  }
}

void Import::defineInitializer(const InitializerRole &r, const Tensor &data) {
  auto add = [&](InputKind kind, const std::string &name) {
    Initializer init;
    init.kind = Initializer::Kind::Data;
    init.data = data;
    return values_.value(llvm::cantFail(g_.addInput(kind, name, data.type, std::move(init))));
  };
  switch (r.role) {
  case Role::Parameter:
    values_.define(r.name, add(InputKind::Param, r.name));
    break;
  case Role::State:
    values_.define(r.name, add(InputKind::State, r.name));
    break;
  case Role::Constant:
    values_.define(r.name, values_.constant(data, r.name));
    if (!r.why.empty())
      state_.note("'" + r.name + "' is taken as a constant, not as a parameter: " + r.why);
    break;
  }
  if (r.alsoState)
    state_.averages[r.name] = add(InputKind::State, values_.freshName(r.name + ".average"));
}

void Import::defineInitializers() {
  std::vector<InitializerRole> roles = classifyInitializers(m_);
  // Roles are known: from here on the bytes may be moved out of the protos.
  llvm::StringMap<Tensor> data;
  for (onnx::TensorProto &t : *m_.proto->mutable_graph()->mutable_initializer()) {
    auto tensor = decodeTensor(t, files_);
    if (tensor)
      data[t.name()] = std::move(*tensor);
    else
      problems_.add(locate(tensor.takeError(), m_.file + ": initializer \"" + t.name() + "\""),
                    m_.file);
  }
  size_t copies = 0;
  std::string example;
  for (const InitializerRole &r : roles) {
    defined_.insert(r.name);
    auto it = data.find(r.copyOf.empty() ? r.name : r.copyOf);
    if (!live_.count(r.name))
      continue;
    if (it == data.end()) {
      values_.defineMissing(r.name, "");
      continue;
    }
    defineInitializer(r, it->second);
    if (!r.copyOf.empty() && r.role != Role::Constant && copies++ == 0)
      example = "'" + r.name + "' of '" + r.copyOf + "'";
  }
  if (copies)
    state_.note(
        std::to_string(copies) + " tensors are copies of others in the file, as " + example +
        " (the exporter merged equal ones); each is learned on its own, from the same start");
}

// --- Nodes

void Import::convertNode(int index) {
  const onnx::NodeProto &proto = m_.graph().node(index);
  const OnnxOp *op = isDefaultDomain(proto.domain()) ? findOp(proto.op_type(), m_.opset) : nullptr;
  auto forget = [&](const std::string &why) {
    for (const std::string &out : proto.output())
      if (!out.empty())
        values_.defineMissing(out, why);
  };
  // After an error its consequences are not told.
  for (const std::string &in : proto.input())
    if (!in.empty() && !values_.find(in)) {
      if (!values_.whyMissing(in).empty())
        problems_.add(whereNode(index), proto.op_type(), values_.whyMissing(in).str());
      return forget("");
    }
  if (!op)
    return forget("");

  NodeContext n(state_, index);
  size_t given = n.numInputs();
  if (given > op->maxInputs)
    n.fail("expects at most {0} operands, got {1}", op->maxInputs, given);
  if (n.numOutputs() > op->maxOutputs)
    n.fail("expects at most {0} results, got {1}", op->maxOutputs, n.numOutputs());
  // Where any number is allowed, none may be left out.
  for (size_t i = 0; i < std::max(op->minInputs, op->maxInputs == kAnyNumber ? given : 0); ++i)
    n.in(i);
  if (!n.failed()) {
    if (op->convert) {
      op->convert(n);
    } else {
      llvm::SmallVector<Operand, 2> all;
      for (size_t i = 0; i < given; ++i)
        all.push_back(n.in(i));
      n.result(0, n.emit(op->row, all));
    }
  }
  if (!n.failed())
    n.checkAllRead();
  if (n.failed()) {
    problems_.add(whereNode(index), proto.op_type(), n.error());
    return forget("");
  }
  for (size_t i = 0; i < n.numOutputs(); ++i) {
    if (!n.wants(i))
      continue;
    const std::string &out = proto.output(int(i));
    if (const Operand *o = values_.find(out))
      checkDeclared(out, o->type, whereNode(index));
    else
      values_.defineMissing(out, "reads '" + out + "', result " + std::to_string(i) +
                                     " of an operator '" + proto.op_type() +
                                     "', which is not supported");
  }
}

// Holds what the file says of a value against what it is. Where sizes were open, an exporter may
// have written one that it saw while tracing: that is told, but no error.
void Import::checkDeclared(const std::string &name, const Type &type, const std::string &where) {
  auto it = declared_.find(name);
  if (it == declared_.end() || !it->second->type().has_tensor_type())
    return;
  const onnx::TypeProto::Tensor &t = it->second->type().tensor_type();
  auto complain = [&](const std::string &says) {
    problems_.add(where, "",
                  "the file declares '" + name + "' " + says + ", but it is '" + type.str() + "'");
  };
  if (t.elem_type() != onnx::TensorProto::UNDEFINED) {
    auto dtype = elementType(t.elem_type());
    if (!dtype)
      return problems_.add(dtype.takeError(), where);
    if (*dtype != type.dtype)
      return complain("of element type " + dtypeName(*dtype).str());
  }
  if (!t.has_shape())
    return;
  const onnx::TensorShapeProto &s = t.shape();
  if (s.dim_size() != type.rank())
    return complain("of rank " + std::to_string(s.dim_size()));
  for (int i = 0; i < s.dim_size(); ++i) {
    if (!s.dim(i).has_dim_value() || s.dim(i).dim_value() < 0 ||
        s.dim(i).dim_value() == type.dims[size_t(i)])
      continue;
    std::string says =
        "of size " + std::to_string(s.dim(i).dim_value()) + " on axis " + std::to_string(i);
    if (!hadSymbols_)
      return complain(says);
    state_.note("the file declares '" + name + "' " + says + ", but with these sizes it is '" +
                type.str() + "'");
    return;
  }
}

// --- Outputs

void Import::addOutputs() {
  for (const onnx::ValueInfoProto &v : m_.graph().output()) {
    const Operand *o = values_.find(v.name());
    if (!o) {
      if (!values_.whyMissing(v.name()).empty())
        problems_.add(m_.file, "",
                      "the output '" + v.name() + "' " + values_.whyMissing(v.name()).str());
      continue;
    }
    ValueId value = values_.inGraph(*o);
    // An output that is another value under a second name, or an input.
    if (g_.valueName(value) != v.name() || g_.inputOf(value)) {
      ValueId holder = g_.find(v.name());
      const Input *in = holder ? g_.inputOf(holder) : nullptr;
      if (in && in->kind == InputKind::Const) // the output's name counts for more
        g_.rename(holder, values_.freshName("constant"));
      std::string name = g_.find(v.name()) ? values_.freshName(v.name()) : v.name();
      auto node = g_.addNode(OpRegistry::get().at("identity"), {value}, {}, name);
      value = g_.node(llvm::cantFail(std::move(node))).firstResult;
    }
    g_.addOutput(value);
  }
}

void Import::addNewAverages() {
  for (auto [old, latest] : state_.runningAverages) {
    g_.rename(latest, values_.freshName("state." + g_.valueName(old).str()));
    g_.addOutput(latest);
  }
}

llvm::Expected<Graph> Import::run() {
  g_.sourceFile = m_.file;
  g_.fromOnnx = true;
  const onnx::GraphProto &g = m_.graph();
  if (g.sparse_initializer_size())
    problems_.add(m_.file, "", "sparse initializers are not supported; store them dense");
  findLive();
  findUnsupported();
  auto inputs = bindInputs(m_, options_);
  if (!inputs) {
    problems_.add(inputs.takeError(), m_.file);
    return problems_.take();
  }
  hadSymbols_ = inputs->hadSymbols;
  for (const auto *list : {&g.value_info(), &g.output()})
    for (const onnx::ValueInfoProto &v : *list)
      declared_[v.name()] = &v;
  for (const BoundInput &in : inputs->inputs)
    values_.reserve(in.name);
  for (const onnx::TensorProto &t : g.initializer())
    values_.reserve(t.name());
  for (const onnx::NodeProto &n : g.node())
    for (const std::string &out : n.output())
      values_.reserve(out);

  defineInputs(inputs->inputs);
  defineInitializers();
  for (int i = 0; i < g.node_size(); ++i) {
    bool done = g.node(i).output_size() == 1 && defined_.count(g.node(i).output(0));
    if (liveNodes_[size_t(i)] && !done)
      convertNode(i);
  }
  if (!problems_.any()) // names are free for outputs only if everything was made
    addOutputs();
  if (problems_.any())
    return problems_.take();
  addNewAverages();
  return std::move(g_);
}

} // namespace
} // namespace onnx_import

llvm::Expected<Graph> importOnnx(const std::string &path, const OnnxOptions &options) {
  auto model = onnx_import::loadModel(path);
  if (!model)
    return model.takeError();
  return onnx_import::Import(*model, options).run();
}

llvm::Expected<Graph> importOnnxBytes(llvm::StringRef bytes, const std::string &name,
                                      const OnnxOptions &options) {
  auto model = onnx_import::parseModel(bytes, name);
  if (!model)
    return model.takeError();
  return onnx_import::Import(*model, options).run();
}

} // namespace isthmus
