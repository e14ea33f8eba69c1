#include "runtime/flat_call.h"

#include "ir/check.h"
#include "ir/op_registry.h"

namespace isthmus {
namespace {

IsthmusType flatType(const Type &t) { return {int32_t(t.dtype), int32_t(t.rank()), t.dims.data()}; }
Type typeOf(const IsthmusType &t) {
  return Type(static_cast<DType>(t.dtype), llvm::makeArrayRef(t.dims, size_t(t.rank)));
}

template <typename T> const T *elements(const IsthmusAttr &a) {
  return static_cast<const T *>(a.data);
}

Attr attrOf(const IsthmusAttr &a) {
  switch (static_cast<AttrKind>(a.kind)) {
  case AttrKind::Bool:
    return *elements<uint8_t>(a) != 0;
  case AttrKind::Int:
    return *elements<int64_t>(a);
  case AttrKind::Float:
    return *elements<double>(a);
  case AttrKind::String:
    return std::string(elements<char>(a), size_t(a.count));
  case AttrKind::IntList:
    return Ints(elements<int64_t>(a), elements<int64_t>(a) + a.count);
  case AttrKind::FloatList:
    return Floats(elements<double>(a), elements<double>(a) + a.count);
  }
  ISTHMUS_UNREACHABLE("kind of attribute");
}

} // namespace

FlatCall::FlatCall(const OpCall &call) {
  for (const auto &[name, value] : *call.attrs) {
    IsthmusAttr a = {name.c_str(), int32_t(kindOf(value)), 1, nullptr};
    if (auto *b = std::get_if<bool>(&value)) {
      bools_.push_back(*b);
      a.data = &bools_.back();
    } else if (auto *s = std::get_if<std::string>(&value)) {
      a.count = int64_t(s->size());
      a.data = s->data();
    } else if (auto *ints = std::get_if<Ints>(&value)) {
      a.count = int64_t(ints->size());
      a.data = ints->data();
    } else if (auto *floats = std::get_if<Floats>(&value)) {
      a.count = int64_t(floats->size());
      a.data = floats->data();
    } else {
      a.data = std::get_if<int64_t>(&value)
                   ? static_cast<const void *>(std::get_if<int64_t>(&value))
                   : std::get_if<double>(&value);
    }
    attrs_.push_back(a);
  }
  for (const Type &t : call.operands)
    types_.push_back(flatType(t));
  for (const Type &t : call.results)
    types_.push_back(flatType(t));
  view_ = {call.op->name.c_str(),
           int64_t(attrs_.size()),
           int64_t(call.operands.size()),
           int64_t(call.results.size()),
           attrs_.data(),
           types_.data(),
           types_.data() + call.operands.size()};
}

llvm::Expected<std::unique_ptr<OwnedCall>> fromFlat(const IsthmusCall &flat) {
  auto owned = std::make_unique<OwnedCall>();
  owned->call.op = OpRegistry::get().find(flat.op);
  if (!owned->call.op)
    return makeError("unknown op '{0}'", flat.op);
  for (int64_t i = 0; i < flat.numAttrs; ++i)
    owned->attrs.set(flat.attrs[i].name, attrOf(flat.attrs[i]));
  owned->call.attrs = &owned->attrs;
  for (int64_t i = 0; i < flat.numOperands; ++i)
    owned->call.operands.push_back(typeOf(flat.operands[i]));
  for (int64_t i = 0; i < flat.numResults; ++i)
    owned->call.results.push_back(typeOf(flat.results[i]));
  return owned;
}

} // namespace isthmus
