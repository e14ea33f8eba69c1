#include "ir/onnx/scope.h"

namespace isthmus::onnx_import {
namespace {

// "out." for a node whose first result is called "out" in the graph.
std::string prefixOf(const Scope &scope, const onnx::NodeProto &n) {
  for (const std::string &out : n.output())
    if (!out.empty())
      return scope.graphName(out) + ".";
  return "";
}

} // namespace

Scope::Scope(const Model &m, ValueTable &values, llvm::StringMap<std::string> graphNames)
    : model(m), opset(m.opset), depth(0), topNode(-1), values_(values),
      graphNames_(std::move(graphNames)) {
  for (const auto &entry : graphNames_)
    values.reserve(entry.second);
}

Scope::Scope(Scope &caller, const onnx::NodeProto &call, int index, const onnx::FunctionProto &f)
    : model(caller.model), opset(0), depth(caller.depth + 1),
      topNode(caller.depth ? caller.topNode : index), values_(caller.values_), caller_(&caller),
      node_(&call), index_(index), function_(&f), what_("function \"" + f.name() + "\" called by"),
      prefix_(prefixOf(caller, call)) {
  for (const onnx::OperatorSetIdProto &o : f.opset_import())
    if (isDefaultDomain(o.domain()))
      opset = std::max(opset, o.version());
  if (opset == 0) // it names none, although it should
    opset = model.opset;
  for (const onnx::AttributeProto &a : f.attribute_proto())
    attributes_[a.name()] = &a;
  for (const onnx::AttributeProto &a : call.attribute())
    if (const onnx::AttributeProto *given = caller.resolve(a))
      attributes_[a.name()] = given;
}

Scope::Scope(Scope &around, const onnx::NodeProto &holder, int index, std::string what,
             const std::string &suffix)
    : model(around.model), opset(around.opset), depth(around.depth + 1),
      topNode(around.depth ? around.topNode : index), values_(around.values_), caller_(&around),
      node_(&holder), index_(index), what_(std::move(what) + " of"),
      prefix_(prefixOf(around, holder) + suffix) {}

const Operand *Scope::find(llvm::StringRef name) const {
  for (const Scope *s = this; s; s = s->function_ ? nullptr : s->caller_) {
    if (auto it = s->byName_.find(name); it != s->byName_.end())
      return &it->second;
    if (s->missing_.count(name))
      return nullptr;
  }
  return nullptr;
}

llvm::StringRef Scope::whyMissing(llvm::StringRef name) const {
  for (const Scope *s = this; s; s = s->function_ ? nullptr : s->caller_)
    if (auto it = s->missing_.find(name); it != s->missing_.end())
      return it->second;
  return {};
}

std::string Scope::graphName(llvm::StringRef name) const {
  if (caller_)
    return values_.freshName(prefix_ + name.str());
  const auto it = graphNames_.find(name);
  return it == graphNames_.end() ? name.str() : it->second;
}

std::string Scope::where(const onnx::NodeProto &n, int index) const {
  std::string text = model.file + ": " + nodeText(n, index);
  for (const Scope *s = this; s->caller_; s = s->caller_)
    text += " in " + s->what_ + " " + nodeText(*s->node_, s->index_);
  return text;
}

const onnx::AttributeProto *Scope::resolve(const onnx::AttributeProto &a) const {
  if (a.ref_attr_name().empty())
    return &a;
  const Scope *s = this;
  while (!s->function_ && s->caller_) // the scope of a graph within a function's node
    s = s->caller_;
  auto it = s->attributes_.find(a.ref_attr_name());
  return it == s->attributes_.end() ? nullptr : it->second;
}

bool Scope::isInside(const onnx::FunctionProto &f) const {
  for (const Scope *s = this; s; s = s->caller_)
    if (s->function_ == &f)
      return true;
  return false;
}

} // namespace isthmus::onnx_import
