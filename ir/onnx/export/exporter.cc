#include "ir/onnx/export/exporter.h"
#include "ir/rounded_values.h"

#include "ir/file.h"
#include "ir/onnx/export/body.h"
#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"
#include <limits>
#include <set>

namespace isthmus {
namespace onnx_export {
namespace {

using namespace onnx_rows;

// The oldest versions that can express everything written here: metadata of nodes, and bfloat16 in
// convolutions and pools.
constexpr int64_t kIrVersion = 10, kOpset = 22;

constexpr int64_t kMostWithin = 1 << 20, kLeastOutside = 1 << 10;

class Exporter {
public:
  Exporter(const Graph &g, const OnnxExportOptions &options) : g_(g), options_(options) {}

  // `dataFile`: the file for large tensors; if empty, all data stay in the model.
  llvm::Error run(const std::string &dataFile);
  const onnx::ModelProto &model() const { return model_; }
  bool hasOutside() const { return outsideBytes_ > 0; }
  llvm::Error writeOutside(llvm::raw_ostream &os) const;

private:
  onnx::GraphProto &graph() { return *model_.mutable_graph(); }
  void declare(ValueId v, onnx::ValueInfoProto &info) const;
  llvm::Error addInputs();
  void placeData(const std::string &dataFile);
  void addNode(NodeId id);
  bool addStandard(const Node &n, const OpCall &call, Body body, llvm::ArrayRef<Name> formals);
  std::string functionFor(const OpCall &call, size_t after, const std::optional<Body> &body,
                          llvm::ArrayRef<Name> formals, llvm::ArrayRef<Name> results);
  void addClauses(const Node &n, Metadata &meta) const;
  void addRole(const OutputRole &role, Metadata &meta) const;
  std::string partFor(const onnx::TensorProto &constant);
  std::string name(ValueId v) const { return g_.valueName(v).str(); }

  const Graph &g_;
  const OnnxExportOptions &options_;
  onnx::ModelProto model_;
  std::vector<Tensor> data_;               // of the initializers so far, in their order
  llvm::StringMap<std::string> parts_;     // of standard operators: names, by their bytes
  llvm::StringMap<std::string> functions_; // operators, by call
  llvm::StringMap<unsigned> bodies_;       // number of functions, by row
  std::set<std::string> withoutBody_;
  llvm::DenseMap<int64_t, unsigned> draws_; // number of drawing nodes, by stream
  struct Outside {
    Tensor data;
    int64_t offset;
  };
  std::vector<Outside> outside_;
  int64_t outsideBytes_ = 0;
};

void Exporter::declare(ValueId v, onnx::ValueInfoProto &info) const {
  info.set_name(name(v));
  auto &t = *info.mutable_type()->mutable_tensor_type();
  t.set_elem_type(elementCode(g_.type(v).dtype));
  t.mutable_shape();
  for (int64_t d : g_.type(v).dims)
    t.mutable_shape()->add_dim()->set_dim_value(d);
}

// --- Inputs

llvm::Error Exporter::addInputs() {
  unsigned place = 0;
  for (const Input &in : g_.inputs()) {
    Tensor data = in.init.data;
    std::string text;
    switch (in.init.kind) {
    case Initializer::Kind::Data:
      if (!data)
        return makeError("the data of '%{0}' was not loaded; its weights file is missing",
                         name(in.value));
      break;
    case Initializer::Kind::None:
      text = "none";
      break;
    default:
      text = initText(in.init);
    }
    if (!data && in.kind != InputKind::Input && options_.draw) {
      auto drawn = options_.draw(in);
      if (!drawn)
        return drawn.takeError();
      data = std::move(*drawn);
    }
    Metadata *meta;
    if (data) {
      onnx::TensorProto &t = *graph().add_initializer();
      t.set_name(name(in.value));
      t.set_data_type(elementCode(data.type.dtype));
      for (int64_t d : data.type.dims)
        t.add_dims(d);
      meta = t.mutable_metadata_props();
      data_.push_back(data);
    } else {
      onnx::ValueInfoProto &v = *graph().add_input();
      declare(in.value, v);
      meta = v.mutable_metadata_props();
    }
    setMeta(*meta, kKind, inputKindName(in.kind));
    setMeta(*meta, kPlace, std::to_string(place++));
    if (!text.empty())
      setMeta(*meta, kInit, text);
    if (!text.empty() && data)
      setMeta(*meta, kCheck, checkOf(data));
  }
  return llvm::Error::success();
}

// Stores the data in the message, or large tensors in a file beside it. Large tensors that share
// their bytes are stored once.
void Exporter::placeData(const std::string &dataFile) {
  int64_t all = 0;
  for (const Tensor &t : data_)
    all += t.bytes();
  bool apart = !dataFile.empty() && all > kMostWithin;
  std::map<std::pair<const char *, int64_t>, int64_t> offsets;
  for (size_t i = 0; i < data_.size(); ++i) {
    const Tensor &t = data_[i];
    onnx::TensorProto &p = *graph().mutable_initializer(int(i));
    if (!apart || t.bytes() < kLeastOutside) {
      p.set_raw_data(std::string(t.data, size_t(t.bytes())));
      continue;
    }
    auto [it, isNew] = offsets.try_emplace({t.data, t.bytes()}, llvm::alignTo(outsideBytes_, 64));
    if (isNew) {
      outside_.push_back({t, it->second});
      outsideBytes_ = it->second + t.bytes();
    }
    p.set_data_location(onnx::TensorProto::EXTERNAL);
    for (auto [key, value] : {std::pair<const char *, std::string>{"location", dataFile},
                              {"offset", std::to_string(it->second)},
                              {"length", std::to_string(t.bytes())}}) {
      auto &e = *p.add_external_data();
      e.set_key(key);
      e.set_value(value);
    }
  }
}

llvm::Error Exporter::writeOutside(llvm::raw_ostream &os) const {
  int64_t at = 0;
  for (const Outside &o : outside_) {
    os.write_zeros(unsigned(o.offset - at));
    os.write(o.data.data, size_t(o.data.bytes()));
    at = o.offset + o.data.bytes();
  }
  return llvm::Error::success();
}

// --- Nodes

// "x", "w"; operands of a variadic row are "xs_0", "xs_1", ...
std::vector<Name> formalNames(const OpDef &op, size_t count) {
  std::vector<Name> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back(op.variadic && i + 1 >= op.operandNames.size()
                        ? op.operandNames.back() + "_" +
                              std::to_string(i + 1 - op.operandNames.size())
                        : op.operandNames[i]);
  return names;
}

std::string Exporter::partFor(const onnx::TensorProto &constant) {
  onnx::TensorProto t = constant;
  t.clear_name();
  auto [it, isNew] = parts_.try_emplace(t.SerializeAsString());
  if (!isNew)
    return it->second;
  unsigned n = unsigned(parts_.size());
  std::string made;
  do
    made = "part." + std::to_string(n++);
  while (g_.find(made));
  t.set_name(made);
  setMeta(*t.mutable_metadata_props(), kKind, kPart);
  *graph().add_initializer() = std::move(t);
  return it->second = made;
}

// Adds the row as one standard operator. False if it needs several, or if a standard operator would
// lose part of the row's meaning.
bool Exporter::addStandard(const Node &n, const OpCall &call, Body body,
                           llvm::ArrayRef<Name> formals) {
  if (body.nodes.size() != 1 || n.op->is(kStopsGradient) || !n.from.after.empty())
    return false;
  onnx::NodeProto &made = body.nodes[0];
  llvm::StringMap<const onnx::TensorProto *> constants;
  for (const onnx::TensorProto &t : body.constants)
    constants[t.name()] = &t;
  std::vector<Name> read; // the row's operands, in the operator's order
  for (const std::string &in : made.input())
    if (!in.empty() && !constants.count(in))
      read.push_back(in);
  if (llvm::makeArrayRef(read) != formals || made.output_size() != int(n.numResults))
    return false;
  size_t next = 0;
  for (std::string &in : *made.mutable_input())
    if (auto it = constants.find(in); it != constants.end())
      in = partFor(*it->second);
    else if (!in.empty())
      in = name(n.operands[next++]);
  for (uint32_t i = 0; i < n.numResults; ++i)
    made.set_output(int(i), name(n.result(i)));
  made.set_name(name(n.firstResult));
  setMeta(*made.mutable_metadata_props(), kRow, callText(call));
  setMeta(*made.mutable_metadata_props(), kCheck, checkOf(made));
  addClauses(n, *made.mutable_metadata_props());
  *graph().add_node() = std::move(made);
  return true;
}

// The operator of domain `ai.isthmus` for a call. Adds its function if it is new.
std::string Exporter::functionFor(const OpCall &call, size_t after, const std::optional<Body> &body,
                                  llvm::ArrayRef<Name> formals, llvm::ArrayRef<Name> results) {
  if (!body) {
    withoutBody_.insert(call.op->name);
    return call.op->name;
  }
  std::string key = callText(call) + " after " + std::to_string(after);
  auto [it, isNew] = functions_.try_emplace(key);
  if (!isNew)
    return it->second;
  unsigned number = ++bodies_[call.op->name];
  it->second = call.op->name + (number == 1 ? "" : "." + std::to_string(number));
  onnx::FunctionProto &f = *model_.add_functions();
  f.set_domain(kDomain.str());
  f.set_name(it->second);
  f.set_doc_string(callText(call) + ": " + call.op->doc);
  for (const Name &in : formals)
    f.add_input(in);
  for (size_t i = 0; i < after; ++i)
    f.add_input("after_" + std::to_string(i));
  for (const Name &out : results)
    f.add_output(out);
  for (const auto &[attr, value] : *call.attrs)
    f.add_attribute(attr);
  f.add_opset_import()->set_version(kOpset);
  for (const onnx::TensorProto &t : body->constants) {
    onnx::NodeProto &c = *f.add_node();
    c.set_op_type("Constant");
    c.add_output(t.name());
    onnx::AttributeProto &a = *c.add_attribute();
    a.set_name("value");
    a.set_type(onnx::AttributeProto::TENSOR);
    *a.mutable_t() = t;
    a.mutable_t()->clear_name();
  }
  for (const onnx::NodeProto &n : body->nodes)
    *f.add_node() = n;
  return it->second;
}

void Exporter::addClauses(const Node &n, Metadata &meta) const {
  if (n.phase != Phase::Forward)
    setMeta(meta, kPhase, phaseName(n.phase));
  if (n.from.gradientOf)
    setMeta(meta, kGradientOf, g_.nodeName(n.from.gradientOf));
  if (n.isClone())
    setMeta(meta, kOrigin, g_.nodeName(n.from.origin));
  if (n.isRestoring()) {
    setMeta(meta, kRestores, g_.valueName(n.from.restores));
    setMeta(meta, kStandIn, standInName(n.from.kind));
  }
  if (n.from.sourceIndex)
    setMeta(meta, kSource, std::to_string(*n.from.sourceIndex));
  std::string marks;
  for (const std::string &m : n.marks)
    marks += (marks.empty() ? "" : " ") + m;
  if (!marks.empty())
    setMeta(meta, kMarks, marks);
  if (!n.device.empty())
    setMeta(meta, kDevice, n.device);
  if (!n.from.after.empty())
    setMeta(meta, kAfter, std::to_string(n.from.after.size()));
}

// The stream that the node draws from; nothing if it does not draw.
std::optional<int64_t> streamOf(const Node &n) {
  bool draws =
      n.op->effect == Effect::Draws && !(n.op->is(kDependsOnMode) && !n.attrs.getBool("training"));
  return draws ? std::optional<int64_t>(n.attrs.getInt("stream")) : std::nullopt;
}

void Exporter::addRole(const OutputRole &role, Metadata &meta) const {
  if (role.isRounded)
    setMeta(meta, kRounded, "1");
  if (role.kind == OutputKind::Result)
    return;
  setMeta(meta, role.kind == OutputKind::Gradient ? kGradient : kNext, g_.valueName(role.of));
  if (role.order != 1)
    setMeta(meta, kOrder, std::to_string(role.order));
}

void Exporter::addNode(NodeId id) {
  const Node &n = g_.node(id);
  OpCall call = g_.call(id);
  std::vector<Name> formals = formalNames(*n.op, n.operands.size()), results;
  std::vector<Known> operands;
  for (size_t i = 0; i < formals.size(); ++i)
    operands.push_back({formals[i], call.operands[i]});
  for (uint32_t i = 0; i < n.numResults; ++i) {
    results.push_back(n.op->resultName(i));
    if (llvm::is_contained(formals, results.back())) // as for `split` of ys into ys
      results.back() += "_out";
  }
  std::optional<Body> body;
  // Standard operators would draw different numbers, but nodes of one stream, such as a mask and
  // its gradient, must draw the same.
  auto stream = streamOf(n);
  if (!stream || draws_.lookup(*stream) == 1) {
    Body made;
    if (auto names = writeRow(made, *n.op, n.attrs, operands, call.results)) {
      made.finish(*names, results);
      body = std::move(made);
    }
  }
  if (body && addStandard(n, call, *body, formals))
    return;
  onnx::NodeProto made;
  made.set_domain(kDomain.str());
  made.set_name(name(n.firstResult));
  made.set_op_type(functionFor(call, n.from.after.size(), body, formals, results));
  for (ValueId v : n.operands)
    made.add_input(name(v));
  for (NodeId before : n.from.after)
    made.add_input(g_.nodeName(before).str());
  for (uint32_t i = 0; i < n.numResults; ++i)
    made.add_output(name(n.result(i)));
  writeAttrs(n.attrs, made);
  addClauses(n, *made.mutable_metadata_props());
  *graph().add_node() = std::move(made);
}

llvm::Error Exporter::run(const std::string &dataFile) {
  if (g_.outputs().empty())
    return locate(makeError("the graph has no outputs, and an ONNX model needs at least one; name "
                            "what it computes, in an .isth file with lines such as `output %y`"),
                  g_.sourceFile);
  model_.set_ir_version(kIrVersion);
  model_.set_producer_name("isthmus");
  model_.add_opset_import()->set_version(kOpset);
  auto &own = *model_.add_opset_import();
  own.set_domain(kDomain.str());
  own.set_version(kDomainVersion);
  Metadata &meta = *model_.mutable_metadata_props();
  setMeta(meta, kFormat, "2");
  if (Attrs record = recordAttrs(g_.record); !record.empty())
    setMeta(meta, kRecord, attrsText(record));
  for (const auto &[key, value] : g_.meta)
    setMeta(meta, kMeta.str() + key, value);
  if (g_.loss)
    setMeta(meta, kLoss, g_.valueName(g_.loss));
  graph().set_name(g_.name);
  if (llvm::Error e = addInputs())
    return e;
  placeData(dataFile);
  for (uint32_t i = 0; i < g_.numNodes(); ++i)
    if (auto stream = streamOf(g_.node(NodeId(i))))
      ++draws_[*stream];
  for (uint32_t i = 0; i < g_.numNodes(); ++i)
    addNode(NodeId(i));
  std::set<unsigned> outputs;
  for (size_t i = 0; i < g_.outputs().size(); ++i) {
    ValueId v = g_.outputs()[i];
    outputs.insert(v.index);
    onnx::ValueInfoProto &info = *graph().add_output();
    declare(v, info);
    addRole(g_.role(i), *info.mutable_metadata_props());
  }
  for (uint32_t i = 0; i < g_.numValues(); ++i)
    if (g_.value(ValueId(i)).def && !outputs.count(i))
      declare(ValueId(i), *graph().add_value_info());
  if (!withoutBody_.empty() && options_.note) {
    std::string names;
    for (const std::string &row : withoutBody_)
      names += (names.empty() ? "" : ", ") + row;
    options_.note("these operators have no form in standard ones, so that other tools cannot run "
                  "the file: " +
                  names);
  }
  return llvm::Error::success();
}

llvm::Expected<std::string> bytesOf(const onnx::ModelProto &m) {
  size_t size = m.ByteSizeLong();
  if (size > size_t(std::numeric_limits<int>::max()))
    return makeError("the model would have {0} bytes; a protobuf file can have 2 GiB", size);
  return m.SerializeAsString();
}

} // namespace
} // namespace onnx_export

// A graph in chunks as a graph of its own: ONNX has no place for the nodes that the chunks replace.
static Graph withoutReplaced(const Graph &g, const OnnxExportOptions &options) {
  Graph out = g;
  if (g.numReplaced() == 0)
    return out;
  if (options.note)
    options.note(
        "the model does not keep what its chunks replace, so it cannot be planned anew from "
        "its original; an .isth file can");
  noteRoundedOutputs(out);
  for (uint32_t i = 0; i < out.numNodes(); ++i) {
    Provenance &from = out.editNode(NodeId(i)).from;
    from.sourceIndex.reset();
    if (Graph::isReplaced(from.gradientOf))
      from.gradientOf = NodeId();
    if (from.kind == StandIn::Chunk)
      from = {.after = from.after};
  }
  for (size_t i = 0; i < out.outputs().size(); ++i)
    if (const ValueId of = out.role(i).of; of && Graph::isReplaced(out.value(of).def))
      out.setRole(i, {.isRounded = out.role(i).isRounded});
  return out;
}

llvm::Expected<std::string> onnxBytes(const Graph &given, const OnnxExportOptions &options) {
  const Graph g = withoutReplaced(given, options);
  onnx_export::Exporter e(g, options);
  if (llvm::Error error = e.run(""))
    return error;
  return onnx_export::bytesOf(e.model());
}

llvm::Error saveOnnx(const Graph &given, llvm::StringRef path, const OnnxExportOptions &options) {
  const Graph g = withoutReplaced(given, options);
  onnx_export::Exporter e(g, options);
  std::string dataFile = llvm::sys::path::filename(path).str() + ".data";
  if (llvm::Error error = e.run(dataFile))
    return error;
  auto bytes = onnx_export::bytesOf(e.model());
  if (!bytes)
    return bytes.takeError();
  auto writeData = [&](llvm::raw_pwrite_stream &os) { return e.writeOutside(os); };
  auto writeModel = [&](llvm::raw_pwrite_stream &os) {
    os << *bytes;
    return llvm::Error::success();
  };
  if (!e.hasOutside())
    return writeFileAtomically(path, writeModel);
  return writeFilesTogether({{dataPathFor(path), writeData}, {path.str(), writeModel}});
}

std::string dataPathFor(llvm::StringRef path) { return path.str() + ".data"; }

} // namespace isthmus
