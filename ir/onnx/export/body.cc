#include "ir/onnx/export/body.h"

#include "ir/builder.h"
#include "ir/onnx/tensor_data.h"
#include "ir/ops/channels.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus::onnx_export {

using namespace onnx_rows;

Ints sequence(int64_t from, int64_t to) {
  Ints v;
  for (; from < to; ++from)
    v.push_back(from);
  return v;
}

// --- Nodes and constants

std::vector<Name> Body::emitAll(llvm::StringRef op, llvm::ArrayRef<Name> operands, size_t results,
                                llvm::ArrayRef<AttrItem> attrs) {
  onnx::NodeProto &n = nodes.emplace_back();
  n.set_op_type(op.str());
  for (const Name &o : operands)
    n.add_input(o);
  std::vector<Name> names;
  for (size_t i = 0; i < results; ++i)
    n.add_output(names.emplace_back(fresh()));
  for (const auto &[name, value] : attrs) {
    onnx::AttributeProto &a = *n.add_attribute();
    a.set_name(name.str());
    switch (kindOf(value)) {
    case AttrKind::Int:
      a.set_type(onnx::AttributeProto::INT);
      a.set_i(std::get<int64_t>(value));
      break;
    case AttrKind::Float:
      a.set_type(onnx::AttributeProto::FLOAT);
      a.set_f(float(std::get<double>(value)));
      break;
    case AttrKind::String:
      a.set_type(onnx::AttributeProto::STRING);
      a.set_s(std::get<std::string>(value));
      break;
    default: {
      const Ints &ints = std::get<Ints>(value);
      a.set_type(onnx::AttributeProto::INTS);
      a.mutable_ints()->Add(ints.begin(), ints.end());
    }
    }
  }
  return names;
}

Name Body::emit(llvm::StringRef op, llvm::ArrayRef<Name> operands, llvm::ArrayRef<AttrItem> attrs) {
  return emitAll(op, operands, 1, attrs)[0];
}

std::vector<Name> Body::scan(std::vector<Name> states, llvm::ArrayRef<Name> xs, Turn turn) {
  Body inner("turn_"); // names must differ from the enclosing ones
  onnx::GraphProto graph;
  graph.set_name("turn");
  std::vector<Name> operands = std::move(states), in, out;
  operands.insert(operands.end(), xs.begin(), xs.end());
  for (size_t i = 0; i < operands.size(); ++i)
    graph.add_input()->set_name(in.emplace_back("turn_in_" + std::to_string(i)));
  std::vector<Name> made = turn(inner, in);
  for (size_t i = 0; i < made.size(); ++i)
    graph.add_output()->set_name(out.emplace_back("turn_out_" + std::to_string(i)));
  inner.finish(made, out);
  for (onnx::TensorProto &t : inner.constants)
    *graph.add_initializer() = std::move(t);
  for (onnx::NodeProto &n : inner.nodes)
    *graph.add_node() = std::move(n);
  std::vector<Name> results =
      emitAll("Scan", operands, made.size(), {{"num_scan_inputs", int64_t(xs.size())}});
  onnx::AttributeProto &a = *last().add_attribute();
  a.set_name("body");
  a.set_type(onnx::AttributeProto::GRAPH);
  *a.mutable_g() = std::move(graph);
  return results;
}

onnx::TensorProto tensorProto(const Tensor &t, const std::string &name) {
  onnx::TensorProto p;
  p.set_name(name);
  p.set_data_type(elementCode(t.type.dtype));
  for (int64_t d : t.type.dims)
    p.add_dims(d);
  p.set_raw_data(std::string(t.data, size_t(t.bytes())));
  return p;
}

Name Body::tensor(const Tensor &t) {
  llvm::StringRef bytes(t.data, size_t(t.bytes()));
  for (const onnx::TensorProto &c : constants) // equal constants are shared
    if (c.data_type() == elementCode(t.type.dtype) && llvm::equal(c.dims(), t.type.dims) &&
        bytes == c.raw_data())
      return c.name();
  constants.push_back(tensorProto(t, prefix_ + "c_" + std::to_string(constants.size())));
  return constants.back().name();
}

Name Body::ints(llvm::ArrayRef<int64_t> values) { return tensor(onnx_import::intsTensor(values)); }
Name Body::integer(int64_t value) {
  return tensor(Tensor::make(Type(DType::I64, {}),
                             [&](char *to) { __builtin_memcpy(to, &value, sizeof value); }));
}
Name Body::number(DType type, double value) {
  return tensor(onnx_import::scalarTensor(type, value));
}

void Body::finish(llvm::ArrayRef<Name> made, llvm::ArrayRef<Name> results) {
  llvm::StringSet<> ours;
  for (const onnx::NodeProto &n : nodes)
    for (const std::string &out : n.output())
      ours.insert(out);
  llvm::StringMap<Name> renamed;
  for (size_t i = 0; i < results.size(); ++i) {
    if (ours.count(made[i]) && renamed.try_emplace(made[i], results[i]).second)
      continue;
    auto it = renamed.find(made[i]);
    onnx::NodeProto &n = nodes.emplace_back();
    n.set_op_type("Identity");
    n.add_input(it == renamed.end() ? made[i] : it->second);
    n.add_output(results[i]);
  }
  for (onnx::NodeProto &n : nodes) {
    auto rename = [&](std::string &name) {
      if (auto it = renamed.find(name); it != renamed.end())
        name = it->second;
    };
    for (std::string &in : *n.mutable_input())
      rename(in);
    for (std::string &out : *n.mutable_output())
      rename(out);
  }
}

Name RowWriter::reshape(const Name &v, llvm::ArrayRef<int64_t> dims) const {
  std::vector<Body::AttrItem> attrs;
  if (llvm::is_contained(dims, 0)) // otherwise 0 would copy the operand's size
    attrs.push_back({"allowzero", int64_t(1)});
  return b.emit("Reshape", {v, b.ints(dims)}, attrs);
}

Name RowWriter::transpose(const Name &v, const Ints &perm) const {
  if (llvm::is_sorted(perm))
    return v;
  return b.emit("Transpose", {v}, {{"perm", perm}});
}

Name RowWriter::cast(const Name &v, DType from, DType to) const {
  return from == to ? v : b.emit("Cast", {v}, {{"to", int64_t(elementCode(to))}});
}

Name RowWriter::slice(const Name &v, const Ints &starts, const Ints &limits, const Ints &axes,
                      const Ints &steps) const {
  std::vector<Name> in{v, b.ints(starts), b.ints(limits), b.ints(axes)};
  if (!steps.empty())
    in.push_back(b.ints(steps));
  return b.emit("Slice", in);
}

// --- Rows

namespace {

const llvm::StringMap<const ExportRow *> &table() {
  static const auto *const made = [] {
    auto *t = new llvm::StringMap<const ExportRow *>;
    for (ExportRows rows : {elementwiseRows(), shapeRows(), windowRows(), normRows(), lossRows(),
                            indexingRows(), scanRows(), randomRows(), transferRows()})
      for (const ExportRow &r : rows)
        (*t)[r.row] = &r;
    return t;
  }();
  return *made;
}

// Writes the row's expansion, built in a separate graph, row by row.
std::optional<std::vector<Name>> writeExpansion(Body &b, const OpDef &op, const Attrs &attrs,
                                                llvm::ArrayRef<Known> operands) {
  Graph g;
  Builder builder(g);
  ExpandContext c{builder, attrs, {}};
  llvm::DenseMap<ValueId, Name> names;
  for (const Known &o : operands) {
    auto v = g.addInput(InputKind::Input, "x", o.type);
    if (!v) {
      llvm::consumeError(v.takeError());
      return std::nullopt;
    }
    names[*v] = o.name;
    c.operands.push_back(*v);
  }
  ValueList results = op.expand(c);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    std::vector<Known> in;
    for (ValueId v : n.operands)
      in.push_back({names.lookup(v), g.type(v)});
    TypeList types;
    for (uint32_t r = 0; r < n.numResults; ++r)
      types.push_back(g.type(n.result(r)));
    auto out = writeRow(b, *n.op, n.attrs, in, types);
    if (!out)
      return std::nullopt;
    for (uint32_t r = 0; r < n.numResults; ++r)
      names[n.result(r)] = (*out)[r];
  }
  std::vector<Name> out;
  for (ValueId v : results)
    out.push_back(v ? names.lookup(v) : Name());
  return out;
}

// ONNX has channels on axis 1. A row with channels last is written between transposes.
std::vector<Name> writeEitherWay(WriteRow write, const RowWriter &w) {
  if (!isChannelsLast(w.attrs))
    return write(w);
  std::vector<Known> operands;
  for (const Known &x : w.operands)
    operands.push_back(
        {w.transpose(x.name, toChannelsFirst(x.type.rank())), channelsFirst(x.type)});
  std::vector<Type> results;
  for (const Type &t : w.results)
    results.push_back(channelsFirst(t));
  std::vector<Name> names = write({w.b, w.attrs, operands, results});
  for (size_t i = 0; i < names.size(); ++i)
    names[i] = w.transpose(names[i], toChannelsLast(results[i].rank()));
  return names;
}

} // namespace

std::optional<std::vector<Name>> writeRow(Body &b, const OpDef &op, const Attrs &attrs,
                                          llvm::ArrayRef<Known> operands,
                                          llvm::ArrayRef<Type> results) {
  auto it = table().find(op.name);
  if (it != table().end()) {
    size_t before = b.nodes.size();
    std::vector<Name> names = writeEitherWay(it->second->write, {b, attrs, operands, results});
    llvm::StringSet<> read;
    read.insert(names.begin(), names.end());
    for (const onnx::NodeProto &n : llvm::makeArrayRef(b.nodes).drop_front(before))
      read.insert(n.input().begin(), n.input().end());
    bool all = llvm::all_of(operands, [&](const Known &o) { return read.count(o.name); });
    if (!names.empty() && (all || it->second->mayIgnore))
      return names;
    b.nodes.resize(before);
  }
  if (!op.expand)
    return std::nullopt;
  return writeExpansion(b, op, attrs, operands);
}

} // namespace isthmus::onnx_export
