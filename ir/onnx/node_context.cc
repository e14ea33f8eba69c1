#include "ir/onnx/node_context.h"

#include "ir/onnx/dependencies.h"
#include "ir/onnx/translate.h"
#include "ir/op_registry.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

namespace isthmus::onnx_import {

Operand ImportState::learnedTensor(const void *proto, const std::string &name, const Tensor &data) {
  auto [it, isNew] = learned.try_emplace(proto);
  if (isNew)
    it->second = values.input(InputKind::Param, name, data);
  return it->second;
}

NodeContext::NodeContext(ImportState &s, Scope &scope, const onnx::NodeProto &proto, int i)
    : state(s), scope(scope), proto(proto), index(i), valuesBefore_(s.graph.numValues()) {
  for (const std::string &name : proto.input()) {
    const Operand *o = name.empty() ? nullptr : scope.find(name);
    inputs_.push_back(o ? *o : Operand());
  }
}

namespace {
const Operand &noOperand() {
  static const Operand *const none = new Operand;
  return *none;
}
} // namespace

const Operand &NodeContext::in(size_t i) {
  if (has(i))
    return inputs_[i];
  fail("expects operand {0}, which is left out", i);
  return noOperand();
}

const Operand &NodeContext::any(size_t i) const { return has(i) ? inputs_[i] : noOperand(); }

void NodeContext::expectTensors() {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].isList())
      fail("expects a tensor in '{0}', got {1}", proto.input(int(i)),
           inputs_[i].list->isOptional ? "an optional value" : "a sequence of tensors");
}

void NodeContext::takeScalarsAsVectors(uint32_t operands, size_t resultsLike) {
  auto isScalar = [&](size_t i) {
    return has(i) && !inputs_[i].isList() && inputs_[i].type.rank() == 0;
  };
  resultsAreScalars_ = isScalar(resultsLike);
  for (size_t i = 0; i < inputs_.size(); ++i)
    if ((operands >> std::min<size_t>(i, 31) & 1) && isScalar(i))
      inputs_[i] = reshape(inputs_[i], {1});
}

// --- Attributes

const onnx::AttributeProto *NodeContext::findAttr(llvm::StringRef name) const {
  for (const onnx::AttributeProto &a : proto.attribute())
    if (a.name() == name)
      return scope.resolve(a);
  return nullptr;
}

const onnx::AttributeProto *NodeContext::attr(llvm::StringRef name) {
  read_.push_back(name);
  return findAttr(name);
}

const onnx::AttributeProto *NodeContext::attrOfKind(llvm::StringRef name, int kind,
                                                    const char *expected) {
  const onnx::AttributeProto *a = attr(name);
  if (a && a->type() != kind) {
    fail("expects {0} as attribute '{1}', got one of another kind", expected, name);
    return nullptr;
  }
  return a;
}

int64_t NodeContext::intAttr(llvm::StringRef name, int64_t byDefault) {
  const onnx::AttributeProto *a = attrOfKind(name, onnx::AttributeProto::INT, "an integer");
  return a ? a->i() : byDefault;
}

double NodeContext::floatAttr(llvm::StringRef name, double byDefault) {
  const onnx::AttributeProto *a = attrOfKind(name, onnx::AttributeProto::FLOAT, "a float");
  return a ? shortestDecimal(a->f()) : byDefault;
}

std::string NodeContext::stringAttr(llvm::StringRef name, llvm::StringRef byDefault) {
  const onnx::AttributeProto *a = attrOfKind(name, onnx::AttributeProto::STRING, "a string");
  return a ? a->s() : byDefault.str();
}

std::optional<Ints> NodeContext::intsAttr(llvm::StringRef name) {
  const onnx::AttributeProto *a =
      attrOfKind(name, onnx::AttributeProto::INTS, "a list of integers");
  if (!a)
    return std::nullopt;
  return Ints(a->ints().begin(), a->ints().end());
}

// Reads ONNX's number of an element type.
DType NodeContext::typeAttr(llvm::StringRef name, std::optional<DType> byDefault) {
  if (byDefault && !hasAttr(name))
    return *byDefault;
  auto type = elementType(int32_t(intAttr(name, 0)));
  if (type)
    return *type;
  llvm::handleAllErrors(type.takeError(),
                        [&](const DiagError &e) { fail("{0}", e.diags.front().message); });
  return byDefault.value_or(DType::F32);
}

std::optional<Tensor> NodeContext::tensorAttr(llvm::StringRef name) {
  const onnx::AttributeProto *a = attrOfKind(name, onnx::AttributeProto::TENSOR, "a tensor");
  if (!a)
    return std::nullopt;
  onnx::TensorProto copy = a->t();
  auto t = decodeTensor(copy, state.files);
  if (t)
    return *t;
  llvm::handleAllErrors(t.takeError(), [&](const DiagError &e) {
    fail("attribute '{0}': {1}", name, e.diags.front().message);
  });
  return std::nullopt;
}

void NodeContext::ignoreAttrs(std::initializer_list<llvm::StringRef> names) {
  read_.append(names.begin(), names.end());
}

void NodeContext::checkAllRead() {
  for (const onnx::AttributeProto &a : proto.attribute())
    if (!llvm::is_contained(read_, a.name()))
      fail("attribute '{0}' is not supported", a.name());
}

// --- Constants

namespace {
// Lists of sizes and axes have an entry per axis, or per part of a split.
constexpr int64_t kLongestList = 4096;

std::string operandName(const onnx::NodeProto &n, size_t i) { return n.input(int(i)); }
} // namespace

const Tensor *NodeContext::known(const Operand &o, llvm::StringRef name) {
  if (o.isConstant())
    return &o.data();
  if (o.isList())
    fail("expects a tensor in '{0}', got a list", name);
  else if (!o.isValid())
    fail("expects '{0}', which is left out", name);
  else if (!failed()) {
    std::string why;
    if (const Tensor *decided = decidedValue(state, o.value, why))
      return decided;
    fail("expects '{0}' to be known at import, but {1}", name, why);
  }
  return nullptr;
}

const Tensor *NodeContext::known(size_t i) {
  const Operand &o = in(i);
  return failed() ? nullptr : known(o, operandName(proto, i));
}

const Tensor *NodeContext::shortList(size_t i) {
  const Tensor *t = known(i);
  if (!t || t->type.elements() <= kLongestList)
    return t;
  fail("expects at most {0} elements in '{1}', got '{2}'", kLongestList, operandName(proto, i),
       t->type.str());
  return nullptr;
}

Ints NodeContext::ints(size_t i) {
  Ints out;
  const Tensor *t = shortList(i);
  if (t && (isFloat(t->type.dtype) || t->type.rank() > 1))
    fail("expects a list of integers in '{0}', got '{1}'", operandName(proto, i), t->type.str());
  else if (t)
    for (int64_t e = 0; e < t->type.elements(); ++e)
      out.push_back(elementAsInt(*t, e));
  return out;
}

Floats NodeContext::floats(size_t i) {
  Floats out;
  if (const Tensor *t = shortList(i))
    for (int64_t e = 0; e < t->type.elements(); ++e)
      out.push_back(elementAsDouble(*t, e));
  return out;
}

double NodeContext::scalar(size_t i) {
  Floats f = floats(i);
  if (failed())
    return 0;
  if (f.size() != 1) {
    fail("expects one number in '{0}', got '{1}'", operandName(proto, i), in(i).type.str());
    return 0;
  }
  return in(i).type.dtype == DType::F32 ? shortestDecimal(float(f[0])) : f[0];
}

int64_t NodeContext::integer(size_t i) {
  double f = scalar(i);
  if (failed())
    return 0;
  if (!isFloat(in(i).type.dtype))
    return elementAsInt(*shortList(i), 0);
  if (!(std::fabs(f) < 0x1p62) || f != std::floor(f)) {
    fail("expects a whole number in '{0}', got {1}", operandName(proto, i), f);
    return 0;
  }
  return int64_t(f);
}

std::optional<Ints> NodeContext::axes(size_t i, int64_t newOpset) {
  if (opset() < newOpset)
    return intsAttr("axes");
  if (!has(i))
    return std::nullopt;
  return ints(i);
}

int64_t NodeContext::axis(int64_t axis, int64_t rank) {
  if (axis >= -rank && axis < rank)
    return axisFromFront(axis, rank);
  fail("expects an axis in [{0}, {1}), got {2}", -rank, rank, axis);
  return 0;
}

Ints NodeContext::axesFromFront(Ints axes, int64_t rank) {
  llvm::SmallVector<bool, 8> seen(size_t(rank), false);
  for (int64_t &a : axes) {
    a = axis(a, rank);
    if (failed())
      return {};
    if (seen[size_t(a)])
      fail("names axis {0} twice", a);
    seen[size_t(a)] = true;
  }
  return axes;
}

std::optional<double> constantScalar(const Operand &o) {
  if (!o.isConstant() || o.type.elements() != 1)
    return std::nullopt;
  return elementAsDouble(o.data(), 0);
}

// --- Making

llvm::SmallVector<Operand, 4> NodeContext::emitAll(llvm::StringRef opName,
                                                   llvm::ArrayRef<Operand> operands, Attrs attrs,
                                                   Phase phase) {
  const OpDef *op = OpRegistry::get().find(opName);
  if (!op)
    fail("needs the op '{0}', which is not there yet", opName);
  for (const Operand &o : operands)
    if (!o.isValid())
      fail("an operand of '{0}' is left out", opName);
  if (failed())
    return llvm::SmallVector<Operand, 4>(8); // enough for every converter that indexes them

  llvm::SmallVector<Operand, 4> out;
  if (llvm::all_of(operands, [](const Operand &o) { return o.isConstant(); })) {
    llvm::SmallVector<Tensor, 4> tensors;
    for (const Operand &o : operands)
      tensors.push_back(o.data());
    if (auto results = state.folding.run(*op, attrs, tensors)) {
      for (Tensor &t : *results)
        out.push_back(constant(std::move(t)));
      return out;
    }
  }

  llvm::SmallVector<ValueId, 4> values;
  for (const Operand &o : operands)
    values.push_back(state.values.inGraph(o));
  // A result is renamed if it becomes a result of the node.
  std::string base;
  for (const std::string &name : proto.output())
    if (base.empty() && !name.empty())
      base = scope.graphName(name) + ".";
  std::string name = state.values.freshName(base + opName.str());
  auto node = state.graph.addNode(*op, values, std::move(attrs), name, phase);
  if (!node) {
    llvm::handleAllErrors(node.takeError(),
                          [&](const DiagError &e) { fail("{0}", e.diags.front().message); });
    return llvm::SmallVector<Operand, 4>(8);
  }
  Node &n = state.graph.editNode(*node);
  n.loc = {uint32_t(scope.depth ? scope.topNode : index) + 1, 0};
  for (uint32_t i = 0; i < n.numResults; ++i) {
    out.push_back(state.values.value(n.result(i)));
    if (out.back().type.rank() > kMaxRank)
      fail("would give a result of {0} dimensions; at most {1} are supported",
           out.back().type.rank(), kMaxRank);
  }
  return out;
}

Operand NodeContext::emit(llvm::StringRef op, llvm::ArrayRef<Operand> operands, Attrs attrs) {
  auto all = emitAll(op, operands, std::move(attrs));
  return all.empty() ? Operand() : all[0];
}

Operand NodeContext::full(const Type &type, llvm::ArrayRef<char> one) {
  if (!type.isValid() || type.rank() > kMaxRank) {
    fail("would give a result of {0}, which has a negative size, too many dimensions or over 2^60 "
         "bytes",
         type.str());
    return {};
  }
  if (state.folding.take(type.bytes()))
    return constant(filled(type, one));
  Tensor scalar = filled(Type(type.dtype, {}), one);
  Attrs attrs{{"dims", Ints(type.dims.begin(), type.dims.end())},
              {"type", dtypeName(type.dtype).str()},
              {"value", elementAsDouble(scalar, 0)}};
  return emit("full", {}, std::move(attrs));
}

Operand NodeContext::full(const Type &type, double value) {
  Tensor one = scalarTensor(type.dtype, value);
  return full(type, llvm::makeArrayRef(one.data, size_t(one.bytes())));
}

Operand NodeContext::reshape(const Operand &x, llvm::ArrayRef<int64_t> dims) {
  if (failed() || llvm::makeArrayRef(x.type.dims) == dims)
    return x;
  return emit("reshape", {x}, {{"dims", Ints(dims.begin(), dims.end())}});
}

Operand NodeContext::transpose(const Operand &x, llvm::ArrayRef<int64_t> perm) {
  return emit("transpose", {x}, {{"perm", Ints(perm.begin(), perm.end())}});
}

Operand NodeContext::broadcast(const Operand &x, llvm::ArrayRef<int64_t> dims) {
  if (failed() || llvm::makeArrayRef(x.type.dims) == dims)
    return x;
  return emit("broadcast", {x}, {{"dims", Ints(dims.begin(), dims.end())}});
}

Operand NodeContext::cast(const Operand &x, DType to) {
  if (failed() || x.type.dtype == to)
    return x;
  return emit("cast", {x}, {{"type", dtypeName(to).str()}});
}

Operand NodeContext::affine(const Operand &x, double scale, double shift) {
  if (failed() || (scale == 1 && shift == 0))
    return x;
  return emit("affine", {x}, {{"scale", scale}, {"shift", shift}});
}

const onnx::GraphProto *NodeContext::graphAttr(llvm::StringRef name) {
  const onnx::AttributeProto *a = attrOfKind(name, onnx::AttributeProto::GRAPH, "a graph");
  if (!a)
    fail("expects a graph as attribute '{0}'", name);
  return a ? &a->g() : nullptr;
}

std::optional<OperandList> NodeContext::translate(const onnx::GraphProto &body,
                                                  llvm::ArrayRef<Operand> inputs, std::string what,
                                                  const std::string &suffix) {
  if (failed())
    return std::nullopt;
  return state.translator->translateGraph(*this, body, inputs, std::move(what), suffix);
}

void NodeContext::result(size_t i, const Operand &given) {
  if (failed() || !wants(i))
    return;
  bool isOne = resultsAreScalars_ && given.isValid() && !given.isList() && given.type.rank() == 1 &&
               given.type.dims[0] == 1;
  const Operand o = isOne ? reshape(given, {}) : given;
  if (!o.isValid())
    return fail("gives no result {0}", i);
  // A value made for this node that has none of its names yet takes the model's name.
  bool own = o.value && o.value.index >= valuesBefore_ && state.graph.value(o.value).def;
  if (own && !llvm::is_contained(named_, o.value)) {
    state.graph.rename(o.value, scope.graphName(proto.output(int(i))));
    named_.push_back(o.value);
  }
  if (o.isConstant() && o.constant->name.empty())
    o.constant->name = scope.graphName(proto.output(int(i)));
  scope.define(proto.output(int(i)), o);
}

} // namespace isthmus::onnx_import
