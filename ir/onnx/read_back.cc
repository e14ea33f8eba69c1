#include "ir/onnx/read_back.h"

#include "ir/onnx/rows.h"
#include "ir/onnx/tensor_data.h"
#include "ir/provenance.h"
#include "ir/text/parser.h"
#include "ir/verifier.h"
#include "ir/version1.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_import {
namespace {

using namespace onnx_rows;

class ReadBack {
public:
  ReadBack(const Model &m, const llvm::StringMap<Tensor> &data)
      : m_(m), data_(data), g_(m.graph().name()) {}

  llvm::Expected<Graph> run();

private:
  llvm::Error readInputs();
  llvm::Expected<Initializer> initializer(llvm::StringRef name, const Metadata &meta);
  llvm::Error readNode(int index);
  llvm::Expected<CallText> rowOfNode(const onnx::NodeProto &n);
  llvm::Error readClauses(const Metadata &meta, Node &node);
  llvm::Expected<OutputRole> readRole(const Metadata &meta);
  llvm::Error readRecord(llvm::StringRef text);
  llvm::Expected<ValueId> value(llvm::StringRef name) {
    if (ValueId v = g_.find(name))
      return v;
    return makeError("there is no value '{0}'", name);
  }

  const Model &m_;
  const llvm::StringMap<Tensor> &data_;
  Graph g_;
  // Results of backward nodes, and the forward nodes of whose gradients they are, which may come
  // later.
  std::vector<std::pair<ValueId, llvm::StringRef>> gradients_;
  llvm::StringSet<> parts_; // initializers that belong to standard operators
};

// --- Inputs, in their original order

struct Place {
  unsigned at = 0;
  std::string name;
  InputKind kind = InputKind::Input;
  Type type;
  const Metadata *meta = nullptr;
};

std::optional<InputKind> kindNamed(llvm::StringRef name) {
  for (auto k : {InputKind::Input, InputKind::Param, InputKind::State, InputKind::Const})
    if (inputKindName(k) == name)
      return k;
  return std::nullopt;
}

llvm::Expected<Type> typeOfInput(const onnx::ValueInfoProto &v) {
  const onnx::TypeProto::Tensor &t = v.type().tensor_type();
  auto dtype = elementType(t.elem_type());
  if (!dtype)
    return dtype.takeError();
  Type type(*dtype, {});
  for (const auto &d : t.shape().dim()) {
    if (!d.has_dim_value())
      return makeError("the input '{0}' has an open size", v.name());
    type.dims.push_back(d.dim_value());
  }
  return type;
}

// The input's original initializer, or its data if another tool has changed them.
llvm::Expected<Initializer> ReadBack::initializer(llvm::StringRef name, const Metadata &meta) {
  auto data = data_.find(name);
  llvm::StringRef text = getMeta(meta, kInit);
  if (!text.empty() && (data == data_.end() || checkOf(data->second) == getMeta(meta, kCheck)))
    return text == "none" ? llvm::Expected<Initializer>(Initializer()) : parseInitializer(text);
  Initializer init;
  if (data != data_.end()) {
    init.kind = Initializer::Kind::Data;
    init.data = data->second;
  }
  return init;
}

llvm::Error ReadBack::readInputs() {
  std::vector<Place> places;
  auto add = [&](const std::string &name, const Metadata &meta,
                 llvm::Expected<Type> type) -> llvm::Error {
    if (!type)
      return type.takeError();
    Place p{0, name, InputKind::Input, *type, &meta};
    auto kind = kindNamed(getMeta(meta, kKind));
    if (!kind || getMeta(meta, kPlace).getAsInteger(10, p.at))
      return makeError("'{0}' has no kind or place", name);
    p.kind = *kind;
    places.push_back(std::move(p));
    return llvm::Error::success();
  };
  for (const onnx::ValueInfoProto &v : m_.graph().input())
    if (llvm::Error e = add(v.name(), v.metadata_props(), typeOfInput(v)))
      return e;
  for (const onnx::TensorProto &t : m_.graph().initializer()) {
    if (getMeta(t.metadata_props(), kKind) == kPart)
      parts_.insert(t.name());
    else if (llvm::Error e = add(t.name(), t.metadata_props(), typeOf(t)))
      return e;
  }
  llvm::stable_sort(places, [](const Place &a, const Place &b) { return a.at < b.at; });
  for (const Place &p : places) {
    auto init = initializer(p.name, *p.meta);
    if (!init)
      return init.takeError();
    if (auto v = g_.addInput(p.kind, p.name, p.type, std::move(*init)); !v)
      return v.takeError();
  }
  return llvm::Error::success();
}

// --- Nodes

llvm::Expected<CallText> ReadBack::rowOfNode(const onnx::NodeProto &n) {
  CallText call;
  if (n.domain() == kDomain) {
    call.op = rowOf(n.op_type());
    if (!call.op)
      return makeError("no row is called '{0}'", n.op_type());
    auto attrs = readAttrs(*call.op, n);
    if (!attrs)
      return attrs.takeError();
    call.attrs = std::move(*attrs);
    return call;
  }
  llvm::StringRef text = getMeta(n.metadata_props(), kRow);
  if (text.empty() || getMeta(n.metadata_props(), kCheck) != checkOf(n))
    return makeError("its operator or attributes are not those that were written");
  return parseCall(text);
}

// StandIn::None if the file does not say it.
static StandIn restoringKind(llvm::StringRef name) {
  for (StandIn kind : kRestoring)
    if (standInName(kind) == name)
      return kind;
  return StandIn::None;
}

llvm::Error ReadBack::readClauses(const Metadata &meta, Node &node) {
  llvm::StringRef phase = getMeta(meta, kPhase);
  for (auto p : {Phase::Backward, Phase::Update})
    if (phaseName(p) == phase)
      node.phase = p;
  if (auto name = getMeta(meta, kGradientOf); !name.empty())
    gradients_.emplace_back(node.firstResult, name);
  if (auto name = getMeta(meta, kOrigin); !name.empty()) {
    auto v = value(name);
    if (!v)
      return v.takeError();
    node.standFor(g_.value(*v).def);
  }
  auto restores = getMeta(meta, kRestores);
  if (auto name = restores.empty() ? getMeta(meta, kPasses) : restores; !name.empty()) {
    auto v = value(name);
    if (!v)
      return v.takeError();
    if (node.isClone())
      return makeError("it is a clone, and restores '{0}'", name);
    node.standFor(*v, restoringKind(getMeta(meta, kStandIn)));
  }
  uint32_t source;
  if (!getMeta(meta, kSource).getAsInteger(10, source))
    node.from.sourceIndex = source;
  llvm::SmallVector<llvm::StringRef, 4> marks;
  getMeta(meta, kMarks).split(marks, ' ', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef mark : marks)
    node.marks.push_back(mark.str());
  node.device = getMeta(meta, kDevice).str();
  return llvm::Error::success();
}

llvm::Expected<OutputRole> ReadBack::readRole(const Metadata &meta) {
  OutputRole role;
  const llvm::StringRef rounded = getMeta(meta, kRounded);
  if (!rounded.empty() && rounded != "1")
    return makeError("'{0}' of an output is '1' or is not there, got '{1}'", kRounded, rounded);
  role.isRounded = !rounded.empty();
  llvm::StringRef gradient = getMeta(meta, kGradient), next = getMeta(meta, kNext);
  if (gradient.empty() && next.empty())
    return role;
  role.kind = gradient.empty() ? OutputKind::NextState : OutputKind::Gradient;
  auto of = value(gradient.empty() ? next : gradient);
  if (!of)
    return of.takeError();
  role.of = *of;
  if (llvm::StringRef order = getMeta(meta, kOrder);
      !order.empty() && (order.getAsInteger(10, role.order) || role.order < 1))
    return makeError("the order of a gradient is a number from 1 on, got '{0}'", order);
  return role;
}

llvm::Error ReadBack::readRecord(llvm::StringRef text) {
  auto record = parseRecord(text);
  if (!record)
    return record.takeError();
  g_.record = std::move(*record);
  return llvm::Error::success();
}

llvm::Error ReadBack::readNode(int index) {
  const onnx::NodeProto &n = m_.graph().node(index);
  const Metadata &meta = n.metadata_props();
  auto call = rowOfNode(n);
  if (!call)
    return call.takeError();
  llvm::SmallVector<ValueId, 4> operands;
  for (const std::string &in : n.input()) {
    if (in.empty() || parts_.count(in))
      continue;
    auto v = value(in);
    if (!v)
      return v.takeError();
    operands.push_back(*v);
  }
  unsigned after = 0;
  getMeta(meta, kAfter).getAsInteger(10, after);
  if (after > operands.size())
    return makeError("it has fewer operands than nodes to run after");
  llvm::SmallVector<NodeId, 4> before;
  for (ValueId v : llvm::makeArrayRef(operands).take_back(after)) {
    if (g_.inputOf(v))
      return makeError("it is to run after '{0}', which is no node", g_.valueName(v));
    before.push_back(g_.value(v).def);
  }
  operands.resize(operands.size() - after);
  for (size_t i = 0; i < call->operands.size(); ++i)
    if (i >= operands.size() || g_.type(operands[i]) != call->operands[i])
      return makeError("its operands are not those that were written");
  std::vector<std::string> names(n.output().begin(), n.output().end());
  auto node = g_.addNode(*call->op, operands, std::move(call->attrs), names);
  if (!node)
    return node.takeError();
  Node &made = g_.editNode(*node);
  if (made.numResults != names.size())
    return makeError("it has {0} results, and its row {1}", names.size(), made.numResults);
  for (uint32_t i = 0; i < made.numResults; ++i)
    if (g_.valueName(made.result(i)) != names[i])
      return makeError("its result '{0}' has the name of another value", names[i]);
  made.from.after.assign(before.begin(), before.end());
  made.loc = {uint32_t(index) + 1, 0};
  return readClauses(meta, made);
}

llvm::Expected<Graph> ReadBack::run() {
  g_.sourceFile = m_.file;
  g_.fromOnnx = true;
  if (llvm::Error e = readInputs())
    return e;
  for (int i = 0; i < m_.graph().node_size(); ++i)
    if (llvm::Error e = readNode(i))
      return locate(std::move(e), nodeText(m_.graph().node(i), i));
  for (const auto &[made, name] : gradients_) {
    auto of = value(name);
    if (!of)
      return of.takeError();
    g_.editNode(g_.value(made).def).from.gradientOf = g_.value(*of).def;
  }
  for (const onnx::ValueInfoProto &v : m_.graph().output()) {
    auto out = value(v.name());
    if (!out)
      return out.takeError();
    auto role = readRole(v.metadata_props());
    if (!role)
      return role.takeError();
    g_.addOutput(*out, *role);
  }
  for (const onnx::StringStringEntryProto &e : m_.proto->metadata_props()) {
    llvm::StringRef key = e.key();
    if (key.consume_front(kMeta))
      g_.meta[key.str()] = e.value();
    else if (key == kLoss)
      g_.loss = g_.find(e.value());
    else if (key == kRecord)
      if (llvm::Error failed = readRecord(e.value()))
        return failed;
  }
  if (getMeta(m_.proto->metadata_props(), kFormat) == "1") {
    rolesByName(g_);
    recordFromMeta(g_);
  }
  inferStandIns(g_);
  if (llvm::Error e = verify(g_))
    return e;
  return std::move(g_);
}

} // namespace

bool isOurs(const Model &m) {
  llvm::StringRef format = getMeta(m.proto->metadata_props(), kFormat);
  return format == "1" || format == "2";
}

std::optional<Graph> readBack(const Model &m, const llvm::StringMap<Tensor> &data,
                              std::string &why) {
  auto g = ReadBack(m, data).run();
  if (g)
    return std::move(*g);
  why = llvm::toString(g.takeError());
  return std::nullopt;
}

} // namespace isthmus::onnx_import
