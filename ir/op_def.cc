#include "ir/op_def.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/graph.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

namespace isthmus {

llvm::Error InferContext::failed(const std::string &rest) const {
  return makeError("'{0}' {1}", op.name, rest);
}

llvm::Error InferContext::expectRank(size_t i, int64_t atLeast, int64_t atMost) const {
  int64_t rank = operand(i).rank();
  if (rank >= atLeast && rank <= atMost)
    return llvm::Error::success();
  std::string want = atLeast == atMost ? std::to_string(atLeast)
                     : atMost >= 64    ? std::to_string(atLeast) + " or more"
                                       : std::to_string(atLeast) + " to " + std::to_string(atMost);
  return error("expects '{0}' of rank {1}, got '{2}'", op.operandNames[i], want, operand(i).str());
}

llvm::Error InferContext::expectSame(size_t i, size_t j) const {
  if (operand(i) == operand(j))
    return llvm::Error::success();
  return error("expects '{0}' and '{1}' of one type, got '{2}' and '{3}'", op.operandNames[i],
               op.operandNames[j], operand(i).str(), operand(j).str());
}

llvm::Error InferContext::expectFloat(size_t i) const {
  if (isFloat(operand(i).dtype))
    return llvm::Error::success();
  return error("expects floating-point '{0}', got '{1}'", op.operandNames[i], operand(i).str());
}

llvm::Error InferContext::expectInteger(size_t i) const {
  if (operand(i).dtype == DType::I32 || operand(i).dtype == DType::I64)
    return llvm::Error::success();
  return error("expects '{0}' of i32 or i64, got '{1}'", op.operandNames[i], operand(i).str());
}

llvm::Expected<int64_t> InferContext::axis(int64_t axis, int64_t rank) const {
  if (axis < -rank || axis >= rank)
    return error("expects an axis in [{0}, {1}), got {2}", -rank, rank, axis);
  return axisFromFront(axis, rank);
}

llvm::Expected<Ints> InferContext::axes(const Ints &given, int64_t rank) const {
  Ints out;
  for (int64_t a : given) {
    auto one = axis(a, rank);
    if (!one)
      return one.takeError();
    if (llvm::is_contained(out, *one))
      return error("names axis {0} twice", *one);
    out.push_back(*one);
  }
  if (given.empty())
    for (int64_t a = 0; a < rank; ++a)
      out.push_back(a);
  llvm::sort(out);
  return out;
}

VjpContext::VjpContext(Builder &b, NodeId node, llvm::ArrayRef<ValueId> grads,
                       llvm::ArrayRef<bool> wanted)
    : b(b), attrs(b.graph().node(node).attrs), grads_(grads.begin(), grads.end()),
      wanted_(wanted.begin(), wanted.end()) {
  const Node &n = b.graph().node(node);
  operands_.assign(n.operands.begin(), n.operands.end());
  for (size_t i = 0; i < n.numResults; ++i)
    results_.push_back(n.result(i));
}

const Type &VjpContext::type(ValueId v) const { return b.graph().type(v); }

ValueId VjpContext::grad(size_t i) {
  if (!grads_[i])
    grads_[i] = b.zeros(type(results_[i]));
  return grads_[i];
}

const AttrDef *OpDef::attr(llvm::StringRef wanted) const {
  for (const AttrDef &a : attrs)
    if (a.name == wanted)
      return &a;
  return nullptr;
}

std::string OpDef::resultName(unsigned i) const {
  return variadicResults ? std::to_string(i) : resultNames[i];
}

llvm::Error checkAttr(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, llvm::StringRef name,
                      Attr &value) {
  const AttrDef *def = llvm::find_if(defs, [&](const AttrDef &d) { return d.name == name; });
  if (def == defs.end()) {
    std::vector<llvm::StringRef> known;
    for (const AttrDef &d : defs)
      known.push_back(d.name);
    std::string list = known.empty() ? "it has none" : "it has " + llvm::join(known, ", ");
    return makeError("'{0}' has no attribute '{1}' ({2}){3}", what, name, list,
                     didYouMean(name, known));
  }
  if (!coerceAttr(value, def->kind))
    return makeError("'{0}' expects attribute '{1}' to be of kind {2}, got {3}", what, name,
                     attrKindName(def->kind), attrText(value));
  if (kindOf(value) == AttrKind::Float && std::isnan(std::get<double>(value)))
    return makeError("'{0}' expects a number in attribute '{1}', got nan", what, name);
  if (kindOf(value) == AttrKind::FloatList &&
      llvm::any_of(std::get<Floats>(value), [](double d) { return std::isnan(d); }))
    return makeError("'{0}' expects numbers in attribute '{1}', got nan", what, name);
  return llvm::Error::success();
}

llvm::Error completeAttrs(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, Attrs &attrs) {
  Attrs complete;
  for (const auto &[name, given] : attrs) {
    Attr value = given;
    if (llvm::Error e = checkAttr(what, defs, name, value))
      return e;
    complete.set(name, std::move(value));
  }
  for (const AttrDef &def : defs) {
    if (complete.find(def.name))
      continue;
    if (!def.byDefault)
      return makeError("'{0}' needs the attribute '{1}' ({2}): {3}", what, def.name,
                       attrKindName(def.kind), def.doc);
    complete.set(def.name, *def.byDefault);
  }
  attrs = std::move(complete);
  return llvm::Error::success();
}

llvm::Error completeAttrs(const OpDef &op, Attrs &attrs) {
  return completeAttrs(op.name, op.attrs, attrs);
}

llvm::Expected<TypeList> inferTypes(const OpDef &op, const Attrs &attrs,
                                    llvm::ArrayRef<Type> operands) {
  if (operands.size() < op.minOperands || operands.size() > op.maxOperands()) {
    std::string want = std::to_string(op.minOperands);
    if (op.variadic)
      want += " or more";
    else if (op.maxOperands() != op.minOperands)
      want += " to " + std::to_string(op.maxOperands());
    return makeError("'{0}' expects {1} operands ({2}), got {3}", op.name, want, op.operands,
                     operands.size());
  }
  const bool isOrdered = op.effect == Effect::Ordered;
  for (size_t i = 0; i < operands.size() && !isOrdered; ++i)
    if (!operands[i].isPlain())
      return makeError("'{0}' expects tensors in the device's memory, got '{1}' as operand {2}",
                       op.name, operands[i].str(), i);
  auto types = op.infer(InferContext(op, attrs, operands));
  if (!types)
    return types.takeError();
  ISTHMUS_CHECK(op.variadicResults || types->size() == op.resultNames.size(),
                "shape rule of '" + op.name + "'");
  for (const Type &t : *types)
    if (t.rank() > kMaxRankInside)
      return makeError("'{0}' would give a result of {1} axes; at most {2} are supported", op.name,
                       t.rank(), kMaxRankInside);
    else if (!t.isValid())
      return makeError("'{0}' would give a result of {1}: its size is negative or over 2^60 bytes",
                       op.name, t.str());
    else if (!t.isPlain() && !isOrdered)
      return makeError("'{0}' gives tensors in the device's memory, not '{1}'", op.name, t.str());
  return types;
}

Cost costOf(const OpCall &call) {
  if (call.op->is(kView))
    return {};
  if (call.op->cost)
    return call.op->cost(call);
  Cost c;
  for (const Type &t : call.operands)
    c.bytes += double(t.bytes());
  for (const Type &t : call.results) {
    c.bytes += double(t.bytes());
    c.flops += double(t.elements());
  }
  return c;
}

static std::string typesText(llvm::ArrayRef<Type> types) {
  std::string text;
  for (const Type &t : types)
    text += (text.empty() ? "" : ", ") + t.str();
  return "(" + text + ")";
}

std::string callText(const OpCall &call) {
  std::string attrs;
  for (const auto &[name, value] : *call.attrs)
    attrs += (attrs.empty() ? "" : ", ") + name + " = " + attrText(value);
  return call.op->name + typesText(call.operands) + (attrs.empty() ? "" : " {" + attrs + "}");
}

std::string callKey(const OpCall &call) { return callText(call) + " : " + typesText(call.results); }

} // namespace isthmus
