// Pools.

#include "ir/onnx/op_table.h"
#include "ir/onnx/window_attrs.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

// The window's attributes as the rows name them, or nothing after an error.
std::optional<Attrs> poolAttrs(NodeContext &n, bool dilates) {
  const Type &x = n.in(0).type;
  auto kernel = n.intsAttr("kernel_shape");
  if (!kernel || x.rank() < 3 || int64_t(kernel->size()) != x.rank() - 2) {
    n.fail("expects an attribute 'kernel_shape' with a size for each spatial axis of '{0}'",
           x.str());
    return std::nullopt;
  }
  WindowAttrs w = windowAttrs(n, *kernel);
  bool ceil = n.intAttr("ceil_mode", 0) != 0;
  if (n.failed())
    return std::nullopt;
  padSame(w, *kernel, llvm::makeArrayRef(x.dims).drop_front(2));
  Attrs attrs = {
      {"kernel", *kernel}, {"strides", w.strides}, {"pads", w.pads}, {"ceil_mode", ceil}};
  if (dilates)
    attrs.set("dilations", w.dilations);
  else if (llvm::any_of(w.dilations, [](int64_t d) { return d != 1; }))
    n.fail("dilations of a mean are not supported");
  return attrs;
}

void convertMaxPool(NodeContext &n) {
  n.ignoreAttrs({"storage_order"}); // of the second result alone
  if (auto attrs = poolAttrs(n, /*dilates=*/true))
    n.result(0, n.emit("max_pool", {n.in(0)}, std::move(*attrs)));
}

void convertAveragePool(NodeContext &n) {
  bool countPad = n.intAttr("count_include_pad", 0) != 0;
  auto attrs = poolAttrs(n, /*dilates=*/false);
  if (!attrs)
    return;
  attrs->set("count_include_pad", countPad);
  n.result(0, n.emit("avg_pool", {n.in(0)}, std::move(*attrs)));
}

void globalPool(NodeContext &n, const char *row) {
  Ints axes;
  for (int64_t a = 2; a < n.in(0).type.rank(); ++a)
    axes.push_back(a);
  if (axes.empty())
    return n.fail("expects an operand of rank 3 or more, got '{0}'", n.in(0).type.str());
  n.result(0, n.emit(row, {n.in(0)}, {{"axes", axes}, {"keepdims", true}}));
}
void convertGlobalAveragePool(NodeContext &n) { globalPool(n, "mean"); }
void convertGlobalMaxPool(NodeContext &n) { globalPool(n, "max"); }

constexpr OnnxOp kOps[] = {
    {"MaxPool", 1, 1, 1, 2, convertMaxPool},
    {"AveragePool", 1, 1, 1, 1, convertAveragePool},
    {"GlobalAveragePool", 1, 1, 1, 1, convertGlobalAveragePool},
    {"GlobalMaxPool", 1, 1, 1, 1, convertGlobalMaxPool},
};

} // namespace

OpRows poolOps() { return kOps; }

} // namespace isthmus::onnx_import
