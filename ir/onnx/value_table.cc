#include "ir/onnx/value_table.h"

#include "ir/check.h"
#include "ir/onnx/tensor_data.h"

namespace isthmus::onnx_import {

std::string ValueTable::freshName(const std::string &base) {
  auto isFree = [&](const std::string &n) { return !reserved_.count(n) && !g_.find(n); };
  if (isFree(base))
    return base;
  unsigned &next = nextSuffix_[base];
  for (next = std::max(next, 2u);; ++next) {
    std::string candidate = base + "." + std::to_string(next);
    if (isFree(candidate))
      return candidate;
  }
}

Operand ValueTable::constant(Tensor t, std::string name) {
  Type type = t.type;
  auto c = std::make_shared<Constant>();
  c->data = std::move(t);
  c->name = std::move(name);
  return {type, ValueId(), std::move(c), nullptr};
}

Operand ValueTable::input(InputKind kind, const std::string &name, const Tensor &data) {
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = data;
  return value(llvm::cantFail(g_.addInput(kind, name, data.type, std::move(init))));
}

ValueId ValueTable::inGraph(const Operand &o) {
  if (!o.isConstant())
    return o.value;
  Constant &c = *o.constant;
  if (c.inGraph)
    return c.inGraph;
  Initializer init;
  init.kind = Initializer::Kind::Data;
  init.data = c.data;
  // A constant of one repeated number, such as a mask, becomes a fill.
  if (c.data.type.elements() > 1 && isFloat(c.data.type.dtype) && allElementsEqual(c.data)) {
    double v = elementAsDouble(c.data, 0);
    if (v == v) {
      init.kind = Initializer::Kind::Fill;
      init.args.set("value", v);
      init.data = {};
    }
  }
  // The model's own name is reserved, so it is still free for the constant that it names.
  std::string name = c.name;
  if (name.empty() || g_.find(name))
    name = freshName(name.empty() ? "constant" : name);
  auto v = g_.addInput(InputKind::Const, name, o.type, std::move(init));
  ISTHMUS_CHECK(bool(v), "a constant of an invalid type"); // its data exist
  return c.inGraph = *v;
}

} // namespace isthmus::onnx_import
