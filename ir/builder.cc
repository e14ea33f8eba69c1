#include "ir/builder.h"

#include "ir/check.h"

namespace isthmus {
namespace {
Ints ints(llvm::ArrayRef<int64_t> a) { return Ints(a.begin(), a.end()); }
} // namespace

NodeId Builder::createNode(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs,
                           llvm::StringRef name) {
  std::string base = prefix + (name.empty() ? op : name).str();
  auto node = g_.addNode(OpRegistry::get().at(op), operands, std::move(attrs), base, phase);
  if (!node)
    ISTHMUS_CHECK(false, "a pass built a wrong node: " + llvm::toString(node.takeError()));
  Node &n = g_.editNode(*node);
  n.device = device;
  n.loc = loc;
  n.from.gradientOf = gradientOf;
  return *node;
}

ValueId Builder::create(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs,
                        llvm::StringRef name) {
  return g_.node(createNode(op, operands, std::move(attrs), name)).firstResult;
}

ValueId Builder::full(const Type &type, double value) {
  return create(
      "full", {},
      {{"dims", ints(type.dims)}, {"type", dtypeName(type.dtype).str()}, {"value", value}});
}

ValueId Builder::scale(ValueId a, double by) { return create("affine", {a}, {{"scale", by}}); }
ValueId Builder::shift(ValueId a, double by) { return create("affine", {a}, {{"shift", by}}); }

ValueId Builder::reshape(ValueId a, llvm::ArrayRef<int64_t> dims) {
  if (llvm::makeArrayRef(type(a).dims) == dims)
    return a;
  return create("reshape", {a}, {{"dims", ints(dims)}});
}

ValueId Builder::transpose(ValueId a, llvm::ArrayRef<int64_t> perm) {
  return create("transpose", {a}, {{"perm", ints(perm)}});
}

ValueId Builder::broadcastTo(ValueId a, llvm::ArrayRef<int64_t> dims) {
  if (llvm::makeArrayRef(type(a).dims) == dims)
    return a;
  return create("broadcast", {a}, {{"dims", ints(dims)}});
}

ValueId Builder::sumTo(ValueId a, llvm::ArrayRef<int64_t> dims) {
  const Type &from = type(a);
  if (llvm::makeArrayRef(from.dims) == dims)
    return a;
  Ints axes;
  size_t lead = from.dims.size() - dims.size();
  for (size_t i = 0; i < from.dims.size(); ++i)
    if (i < lead || (dims[i - lead] == 1 && from.dims[i] != 1))
      axes.push_back(static_cast<int64_t>(i));
  return reshape(axes.empty() ? a : sum(a, axes, /*keepDims=*/false), dims);
}

ValueId Builder::sum(ValueId a, llvm::ArrayRef<int64_t> axes, bool keepDims) {
  return create("sum", {a}, {{"axes", ints(axes)}, {"keepdims", keepDims}});
}

ValueId Builder::cast(ValueId a, DType to) {
  if (type(a).dtype == to)
    return a;
  return create("cast", {a}, {{"type", dtypeName(to).str()}});
}

Ints inversePermutation(const Ints &perm) {
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    inverse[perm[i]] = static_cast<int64_t>(i);
  return inverse;
}

} // namespace isthmus
