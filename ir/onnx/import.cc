// The import of a parsed model into a graph: binds sizes, sorts initializers into parameters, state
// and constants, translates the nodes in order, and names outputs. If a value that depends on
// inputs must be known at import, and the inputs have given values, the import starts again with
// these inputs as constants.

#include "ir/onnx/import.h"

#include "ir/element.h"
#include "ir/onnx/module_names.h"
#include "ir/onnx/op_table.h"
#include "ir/onnx/parameters/roles.h"
#include "ir/onnx/problems.h"
#include "ir/onnx/read_back.h"
#include "ir/onnx/symbols.h"
#include "ir/onnx/translate.h"
#include "ir/op_registry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus {
namespace onnx_import {
namespace {

// Results that all attempts of an import share.
struct Prepared {
  const Model &model;
  const OnnxOptions &options;
  ExternalFiles files;
  BoundInputs inputs;
  Roles roles;
  llvm::StringMap<Tensor> data; // of the initializers that could be read
  Problems problems;            // errors of the others
};

// An output whose declared shape differs from its actual shape, in a model with open sizes.
struct Doubt {
  std::string output, where, message;
  int axis; // -1: the rank
};

class Import {
public:
  explicit Import(Prepared &p)
      : p_(p), m_(p.model), g_(m_.graph().name().empty() ? "main" : m_.graph().name()), values_(g_),
        folding_(p.options.fold, m_.fileBytes, p.options.allowance), problems_(p.problems),
        scope_(m_, values_, moduleNames(m_)), state_{m_,       p.options, g_,       values_,
                                                     folding_, p.files,   problems_},
        translator_(state_) {
    state_.translator = &translator_;
    state_.otherWeights = &p.roles.otherWeights;
  }

  llvm::Expected<Graph> run();
  std::vector<Remark> notes() const { return state_.notes.lines(); }
  const std::vector<Doubt> &doubts() const { return doubts_; }

private:
  void reserveNames();
  void defineInputs();
  void defineInitializers(const llvm::StringSet<> &read);
  void defineInitializer(const InitializerRole &r, const Tensor &data);
  Operand rearranged(const InitializerRole &r, const Type &type);
  Operand repeatedRow(const std::string &name, const Tensor &data);
  void checkInitializers();
  void checkDeclared(const std::string &name, const Operand &o, const std::string &where);
  void addOutputs();
  void addNewAverages();

  Prepared &p_;
  const Model &m_;
  Graph g_;
  ValueTable values_;
  Folding folding_;
  Problems problems_;
  Scope scope_;
  ImportState state_;
  Translator translator_;
  llvm::StringMap<const onnx::ValueInfoProto *> declared_;
  llvm::StringSet<> isOutput_;
  std::vector<Doubt> doubts_;
};

// --- Names

void Import::reserveNames() {
  const onnx::GraphProto &g = m_.graph();
  for (const auto *list : {&g.input(), &g.value_info(), &g.output()})
    for (const onnx::ValueInfoProto &v : *list)
      declared_[v.name()] = &v;
  for (const onnx::ValueInfoProto &v : g.output())
    isOutput_.insert(v.name());
  for (const BoundInput &in : p_.inputs.inputs)
    values_.reserve(in.name);
  for (const onnx::TensorProto &t : g.initializer())
    values_.reserve(t.name());
  for (const onnx::NodeProto &n : g.node())
    for (const std::string &out : n.output())
      values_.reserve(out);
}

// --- Inputs and initializers

void Import::defineInputs() {
  for (const BoundInput &in : p_.inputs.inputs) {
    auto v = g_.addInput(InputKind::Input, in.name, in.type);
    if (v)
      scope_.define(in.name, values_.value(*v));
    else
      problems_.add(v.takeError(), m_.file);
  }
}

void Import::defineInitializer(const InitializerRole &r, const Tensor &data) {
  auto add = [&](InputKind kind, const std::string &name) {
    return values_.input(kind, name, data);
  };
  Operand o;
  switch (r.role) {
  case Role::Parameter:
    o = !r.sameAs.empty() ? rearranged(r, data.type)
        : r.isRepeated    ? repeatedRow(r.name, data)
                          : add(InputKind::Param, r.name);
    break;
  case Role::State:
    o = add(InputKind::State, r.name);
    break;
  case Role::Constant:
    o = values_.constant(data, r.name);
    break;
  }
  scope_.define(r.name, o);
  if (r.alsoState)
    state_.averages[values_.inGraph(o)] =
        add(InputKind::State, values_.freshName(r.name + ".average"));
}

// The parameter `r.sameAs` in r's shape, order and type.
Operand Import::rearranged(const InitializerRole &r, const Type &type) {
  ValueId v = scope_.find(r.sameAs)->value;
  auto emit = [&](llvm::StringRef op, Attrs attrs) {
    std::string name = values_.freshName(r.name + "." + op.str());
    auto node = g_.addNode(OpRegistry::get().at(op), {v}, std::move(attrs), name);
    v = g_.node(llvm::cantFail(std::move(node))).firstResult;
  };
  auto reshape = [&](const Dims &dims) {
    if (g_.type(v).dims != dims)
      emit("reshape", {{"dims", Ints(dims.begin(), dims.end())}});
  };
  if (r.how.made == Pointwise::OneMinus)
    emit("affine", {{"scale", -1.0}, {"shift", 1.0}});
  if (r.how.made == Pointwise::Reciprocal)
    emit("reciprocal", {});
  if (!r.how.perm.empty()) {
    reshape(r.how.from);
    emit("transpose", {{"perm", Ints(r.how.perm.begin(), r.how.perm.end())}});
  }
  reshape(type.dims);
  if (g_.type(v).dtype != type.dtype)
    emit("cast", {{"type", dtypeName(type.dtype).str()}});
  return values_.value(v);
}

// A parameter made of the first row of `data`, broadcast to all rows, which are equal.
Operand Import::repeatedRow(const std::string &name, const Tensor &data) {
  Type one = data.type;
  one.dims[0] = 1;
  Operand row = values_.input(InputKind::Param, name, Tensor{one, data.owner, data.data});
  Ints dims(data.type.dims.begin(), data.type.dims.end());
  auto node = g_.addNode(OpRegistry::get().at("broadcast"), {row.value}, {{"dims", dims}},
                         values_.freshName(name + ".broadcast"));
  return values_.value(g_.node(llvm::cantFail(std::move(node))).firstResult);
}

// As the file declares it; open sizes are '?'.
static std::string declaredText(const onnx::TypeProto::Tensor &t) {
  auto dtype = elementType(t.elem_type());
  std::string text = dtype ? dtypeName(*dtype).str() : "another type";
  llvm::consumeError(dtype.takeError());
  if (!t.has_shape())
    return text;
  std::vector<std::string> sizes;
  for (const onnx::TensorShapeProto::Dimension &d : t.shape().dim())
    sizes.push_back(d.has_dim_value() ? std::to_string(d.dim_value()) : "?");
  return text + "[" + llvm::join(sizes, ", ") + "]";
}

// Nobody traces or guesses a tensor that the file holds, so a difference is an error.
void Import::checkInitializers() {
  for (const onnx::TensorProto &t : m_.graph().initializer()) {
    const auto declared = declared_.find(t.name());
    const auto data = p_.data.find(t.name());
    if (declared == declared_.end() || data == p_.data.end() ||
        !declared->second->type().has_tensor_type())
      continue;
    const onnx::TypeProto::Tensor &says = declared->second->type().tensor_type();
    const onnx::TensorShapeProto &shape = says.shape();
    const Type &type = data->second.type;
    const bool hasType = says.elem_type() != onnx::TensorProto::UNDEFINED;
    bool differs = (hasType && says.elem_type() != t.data_type()) ||
                   (says.has_shape() && shape.dim_size() != type.rank());
    for (int i = 0; i < shape.dim_size() && !differs; ++i)
      differs = shape.dim(i).has_dim_value() && shape.dim(i).dim_value() != type.dims[size_t(i)];
    if (differs)
      problems_.add(m_.file, "",
                    "the file declares the initializer '" + t.name() + "' as '" +
                        declaredText(says) + "', but it is '" + type.str() +
                        "'; correct the declaration or store the tensor that it describes");
  }
}

void Import::defineInitializers(const llvm::StringSet<> &read) {
  checkInitializers();
  llvm::StringSet<> needed;
  for (const InitializerRole &r : p_.roles.tensors)
    if (read.count(r.name)) {
      needed.insert(r.name);
      needed.insert(r.sameAs);
    }
  for (const InitializerRole &r : p_.roles.tensors) {
    auto it = p_.data.find(r.of);
    if (it == p_.data.end())
      scope_.defineMissing(r.name, "");
    else if (needed.count(r.name))
      defineInitializer(r, it->second);
  }
}

// Compares the declared type of a value with its actual type. With open sizes, an exporter may have
// declared a size that it saw while tracing, and PyTorch guesses some shapes (behind a Transpose
// with negative axes they are uninitialized memory), so a difference is a note, not an error. A
// difference in an output stays in doubt until `settle` finds out whether the shape depends on the
// open sizes.
void Import::checkDeclared(const std::string &name, const Operand &o, const std::string &where) {
  auto it = declared_.find(name);
  if (it == declared_.end() || o.isList() || !it->second->type().has_tensor_type())
    return;
  const Type &type = o.type;
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
  // PyTorch's older exporter declares sizes behind a Transpose with negative axes from
  // uninitialized memory, and gives the result of a Reshape by computed sizes the rank of another
  // value.
  const bool isByTorch = m_.isByTorch();
  const bool isUnwritten =
      isByTorch && llvm::any_of(s.dim(), [](const auto &d) { return d.dim_value() > INT32_MAX; });
  const bool hasSymbols = !p_.inputs.symbols.empty(), hasRank = s.dim_size() == type.rank();
  const bool isDoubt =
      hasSymbols && isOutput_.count(name) && !isUnwritten && (hasRank || !isByTorch);
  auto differs = [&](const std::string &says, int axis) {
    if (!hasSymbols && !isUnwritten)
      return complain(says);
    std::string message =
        "the file declares '" + name + "' " + says + ", but it is '" + type.str() + "'";
    if (isDoubt)
      doubts_.push_back({name, where, message, axis});
    else
      state_.notes.add("declared", name, message);
  };
  if (!hasRank)
    return differs("of rank " + std::to_string(s.dim_size()), -1);
  for (int i = 0; i < s.dim_size(); ++i) {
    if (!s.dim(i).has_dim_value() || s.dim(i).dim_value() < 0 ||
        s.dim(i).dim_value() == type.dims[size_t(i)])
      continue;
    differs("of size " + std::to_string(s.dim(i).dim_value()) + " on axis " + std::to_string(i), i);
    if (!isDoubt) // one note per value is enough
      return;
  }
}

// --- Outputs

void Import::addOutputs() {
  llvm::StringSet<> listed;
  for (const onnx::ValueInfoProto &v : m_.graph().output()) {
    if (!listed.insert(v.name()).second) { // exporters do this if a model returns one tensor twice
      state_.notes.add("'" + v.name() + "' is listed twice among the outputs, and is taken once");
      continue;
    }
    const Operand *o = scope_.find(v.name());
    if (!o) {
      if (!scope_.whyMissing(v.name()).empty())
        problems_.add(m_.file, "",
                      "the output '" + v.name() + "' " + scope_.whyMissing(v.name()).str());
      continue;
    }
    if (o->isList()) {
      problems_.add(
          m_.file, "",
          "the output '" + v.name() + "' is " +
              (o->list->isOptional
                   ? "an optional value"
                   : "a sequence of " + std::to_string(o->list->items.size()) + " tensors") +
              "; only tensors can be outputs");
      continue;
    }
    ValueId value = values_.inGraph(*o);
    // A constant, or another value under a second name, needs an identity node.
    const Input *source = g_.inputOf(value);
    if (g_.valueName(value) != v.name() || (source && source->kind == InputKind::Const)) {
      ValueId holder = g_.find(v.name());
      const Input *in = holder ? g_.inputOf(holder) : nullptr;
      if (in && in->kind == InputKind::Const) // the output has priority for the name
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
    g_.addOutput(latest, {OutputKind::NextState, old});
  }
}

llvm::Expected<Graph> Import::run() {
  g_.sourceFile = m_.file;
  g_.fromOnnx = true;
  const onnx::GraphProto &g = m_.graph();
  state_.checkDeclared = [&](const std::string &name, const Operand &o, int node) {
    checkDeclared(name, o, m_.whereNode(node));
  };
  if (m_.opset > kNewestOpset)
    state_.notes.add("the model is of opset " + std::to_string(m_.opset) + ", newer than " +
                     std::to_string(kNewestOpset) +
                     ", the newest that is known here; its operators are read as of that one");
  std::vector<llvm::StringRef> wanted;
  for (const onnx::ValueInfoProto &v : g.output())
    wanted.push_back(v.name());
  llvm::StringSet<> read;
  liveNodes(m_, g.node(), wanted, read);
  reserveNames();
  defineInputs();
  defineInitializers(read);
  translator_.translate(scope_, g.node(), wanted);
  if (!problems_.any()) // an output's name is free only if all nodes were translated
    addOutputs();
  if (problems_.any())
    return problems_.take();
  addNewAverages();
  return std::move(g_);
}

// --- Declared shapes in doubt

// Whether the output's rank, or its size on the axis, differs between `g` and `other`.
bool differsIn(const Graph &g, const Graph &other, const Doubt &d) {
  const Type &a = g.type(g.find(d.output)), &b = other.type(other.find(d.output));
  return a.rank() != b.rank() || (d.axis >= 0 && a.dims[size_t(d.axis)] != b.dims[size_t(d.axis)]);
}

// A declared shape that depends on an open size may be the one that the exporter saw while tracing:
// a note. A declared shape that is wrong for all open sizes is an error. Imports with other sizes
// tell the two apart. If none of them succeeds, the difference stays a note.
llvm::Error settle(Prepared &p, const Import &done, const Graph &g, Notes &notes) {
  std::vector<bool> depends(done.doubts().size(), false);
  bool wasTried = false;
  for (auto [factor, more] : {std::pair(2, 0), {1, 1}, {0, 1}}) {
    if (llvm::all_of(depends, [](bool b) { return b; }))
      break;
    OnnxOptions options = p.options;
    for (const auto &[symbol, size] : p.inputs.symbols)
      options.dims[symbol] = factor * size + more;
    auto inputs = bindInputs(p.model, options);
    if (!inputs) {
      llvm::consumeError(inputs.takeError());
      continue;
    }
    std::swap(p.inputs, *inputs);
    auto other = Import(p).run();
    std::swap(p.inputs, *inputs);
    if (!other) {
      llvm::consumeError(other.takeError());
      continue;
    }
    wasTried = true;
    for (size_t i = 0; i < depends.size(); ++i)
      depends[i] = depends[i] || differsIn(g, *other, done.doubts()[i]);
  }
  Problems problems;
  for (size_t i = 0; i < depends.size(); ++i) {
    const Doubt &d = done.doubts()[i];
    const bool isReported = i > 0 && done.doubts()[i - 1].output == d.output;
    if ((depends[i] || !wasTried) && !isReported)
      notes.add("declared", d.output, d.message);
    else if (!depends[i] && wasTried)
      problems.add(d.where, "", d.message + ", whatever the open sizes are");
  }
  return problems.take();
}

// --- The import of a file

llvm::Expected<Graph> importModel(Model &m, const OnnxOptions &options) {
  auto inputs = bindInputs(m, options);
  // A model with unsupported operators cannot run at all, so they are reported before missing
  // sizes.
  if (!inputs) {
    if (llvm::Error unsupported = unsupportedOperators(m)) {
      llvm::consumeError(inputs.takeError());
      return unsupported;
    }
    return locate(inputs.takeError(), m.file);
  }
  Prepared p{
      m,  options, ExternalFiles(m.folder, options.outside, options.reads), std::move(*inputs), {},
      {}, {}};
  if (m.graph().sparse_initializer_size())
    p.problems.add(m.file, "", "sparse initializers are not supported; store them dense");
  for (onnx::TensorProto &t : *m.proto->mutable_graph()->mutable_initializer()) {
    auto tensor = decodeTensor(t, p.files);
    if (tensor)
      p.data[t.name()] = std::move(*tensor);
    else
      p.problems.add(locate(tensor.takeError(), m.file + ": initializer \"" + t.name() + "\""),
                     m.file);
  }
  auto tell = [&](const Remark &note) {
    if (options.note)
      options.note(note);
  };
  if (isOurs(m) && !p.problems.any()) {
    std::string why;
    if (auto g = readBack(m, p.data, why)) {
      if (!options.ties.empty() || !options.untie.empty())
        return makeError("{0} was written here, and its parameters have one name each, so --tie "
                         "and --untie have no meaning for it",
                         m.file);
      return std::move(*g);
    }
    tell("the file was changed since it was written here (" + why +
         "), so it is read as any other model");
  }
  auto roles = findRoles(m, p.data, options);
  if (!roles)
    return locate(roles.takeError(), m.file);
  p.roles = std::move(*roles);
  Import import(p);
  auto g = import.run();
  Notes aboutShapes;
  if (g && !import.doubts().empty())
    if (llvm::Error e = settle(p, import, *g, aboutShapes))
      return e;
  for (const Remark &note : p.roles.notes.lines())
    if (g)
      tell(note);
  for (const Remark &note : import.notes())
    tell(note);
  for (const Remark &note : aboutShapes.lines())
    tell(note);
  return g;
}

} // namespace
} // namespace onnx_import

llvm::Expected<Graph> importOnnx(const std::string &path, const OnnxOptions &options) {
  auto model = onnx_import::loadModel(path);
  if (!model)
    return model.takeError();
  return onnx_import::importModel(*model, options);
}

llvm::Expected<Graph> importOnnxBytes(llvm::StringRef bytes, const std::string &name,
                                      const OnnxOptions &options) {
  auto model = onnx_import::parseModel(bytes, name);
  if (!model)
    return model.takeError();
  return onnx_import::importModel(*model, options);
}

llvm::Expected<std::vector<std::string>> onnxBatchSizes(const std::string &path) {
  auto model = onnx_import::loadModel(path);
  if (!model)
    return model.takeError();
  return onnx_import::batchSizes(*model);
}

llvm::Expected<std::vector<std::string>> onnxInputNames(const std::string &path) {
  auto model = onnx_import::loadModel(path);
  if (!model)
    return model.takeError();
  llvm::StringSet<> initializers;
  for (const onnx::TensorProto &t : model->graph().initializer())
    initializers.insert(t.name());
  std::vector<std::string> out;
  for (const onnx::ValueInfoProto &v : model->graph().input())
    if (!initializers.count(v.name()))
      out.push_back(v.name());
  return out;
}

} // namespace isthmus
