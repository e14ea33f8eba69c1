// Pools.

#include "ir/onnx/op_table.h"
#include "ir/onnx/window_attrs.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

// The window's attributes with the rows' names, or nothing after an error.
std::optional<Attrs> poolAttrs(NodeContext &n) {
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
  return Attrs{{"kernel", *kernel},
               {"strides", w.strides},
               {"pads", w.pads},
               {"dilations", w.dilations},
               {"ceil_mode", ceil}};
}

void convertMaxPool(NodeContext &n) {
  bool columns = n.intAttr("storage_order", 0) != 0;
  auto attrs = poolAttrs(n);
  if (!attrs)
    return;
  if (n.wants(0))
    n.result(0, n.emit("max_pool", {n.in(0)}, *attrs));
  attrs->set("column_major", columns);
  if (n.wants(1))
    n.result(1, n.emit("max_pool_indices", {n.in(0)}, *attrs));
}

void convertAveragePool(NodeContext &n) {
  bool countPad = n.intAttr("count_include_pad", 0) != 0;
  auto attrs = poolAttrs(n);
  if (!attrs)
    return;
  attrs->set("count_include_pad", countPad);
  n.result(0, n.emit("avg_pool", {n.in(0)}, std::move(*attrs)));
}

// Returns elements to the positions of their maxima. The indices are flat indices into the result
// that the window attributes give. A larger result contains that one at its beginning.
void convertMaxUnpool(NodeContext &n) {
  const Type &x = n.in(0).type;
  auto kernel = n.intsAttr("kernel_shape");
  if (!kernel || x.rank() < 3 || int64_t(kernel->size()) != x.rank() - 2)
    return n.fail("expects an attribute 'kernel_shape' with a size for each spatial axis of '{0}'",
                  x.str());
  WindowAttrs w = windowAttrs(n, *kernel);
  Ints want;
  if (n.has(2))
    want = n.ints(2);
  if (!n.failed() && (n.in(1).type.dims != x.dims || isFloat(n.in(1).type.dtype)))
    n.fail("expects an index for each element of '{0}', got '{1}'", x.str(), n.in(1).type.str());
  if (!n.failed() && !want.empty() && int64_t(want.size()) != x.rank())
    n.fail("expects a size for each axis of '{0}', got {1}", x.str(), attrText(want));
  if (n.failed())
    return;
  Type y = x;
  for (size_t i = 0; i < kernel->size(); ++i)
    y.dims[2 + i] =
        (x.dims[2 + i] - 1) * w.strides[i] + (*kernel)[i] - w.pads[i] - w.pads[kernel->size() + i];
  if (!y.isValid())
    return n.fail("would give a result '{0}'", y.str());
  Operand zeros = n.full(y.with({y.elements()}), 0);
  Operand flat = n.emit("scatter_elements", {zeros, n.reshape(n.in(1), {x.elements()}),
                                             n.reshape(n.in(0), {x.elements()})});
  flat = n.reshape(flat, y.dims);
  Ints low(y.dims.size(), 0), high = low;
  bool larger = false;
  for (size_t i = 0; i < want.size(); ++i) {
    high[i] = want[i] - y.dims[i];
    larger |= high[i] > 0;
    if (high[i] < 0)
      return n.fail("expects an output of at least '{0}', got {1}", y.str(), attrText(want));
  }
  n.result(0, larger ? n.emit("pad", {flat}, {{"low", low}, {"high", high}}) : flat);
}

// --- Norms: the p-th root of the sum of p-th powers

Operand power(NodeContext &n, const Operand &x, double p) {
  if (p == 1)
    return n.emit("abs", {x});
  if (p == 2)
    return n.emit("square", {x});
  return n.emit("pow", {n.emit("abs", {x}), n.scalarConstant(x.type.dtype, p)});
}

Operand root(NodeContext &n, const Operand &x, double p) {
  if (p == 1)
    return x;
  if (p == 2)
    return n.emit("sqrt", {x});
  return n.emit("pow", {x, n.scalarConstant(x.type.dtype, 1 / p)});
}

double exponent(NodeContext &n) {
  double p = n.opset() < 2 ? n.floatAttr("p", 2) : double(n.intAttr("p", 2));
  if (!n.failed() && !(p > 0))
    n.fail("expects a p above 0, got {0}", p);
  return p;
}

void convertLpPool(NodeContext &n) {
  double p = exponent(n);
  auto attrs = poolAttrs(n);
  if (!attrs)
    return;
  attrs->set("divisor", int64_t(1));
  Operand sums = n.emit("avg_pool", {power(n, n.in(0), p)}, std::move(*attrs));
  n.result(0, root(n, sums, p));
}

Ints spatialAxes(NodeContext &n) {
  Ints axes;
  for (int64_t a = 2; a < n.in(0).type.rank(); ++a)
    axes.push_back(a);
  if (axes.empty())
    n.fail("expects an operand of rank 3 or more, got '{0}'", n.in(0).type.str());
  return axes;
}

void convertGlobalLpPool(NodeContext &n) {
  double p = exponent(n);
  Ints axes = spatialAxes(n);
  Operand sums = n.emit("sum", {power(n, n.in(0), p)}, {{"axes", axes}, {"keepdims", true}});
  n.result(0, root(n, sums, p));
}

void globalPool(NodeContext &n, const char *row) {
  Ints axes = spatialAxes(n);
  n.result(0, n.emit(row, {n.in(0)}, {{"axes", axes}, {"keepdims", true}}));
}
void convertGlobalAveragePool(NodeContext &n) { globalPool(n, "mean"); }
void convertGlobalMaxPool(NodeContext &n) { globalPool(n, "max"); }

constexpr OnnxOp kOps[] = {
    {"MaxPool", 1, 1, 1, 2, convertMaxPool},
    {"AveragePool", 1, 1, 1, 1, convertAveragePool},
    {"MaxUnpool", 9, 2, 3, 1, convertMaxUnpool, kAllButFirst},
    {"LpPool", 1, 1, 1, 1, convertLpPool},
    {"GlobalLpPool", 1, 1, 1, 1, convertGlobalLpPool},
    {"GlobalAveragePool", 1, 1, 1, 1, convertGlobalAveragePool},
    {"GlobalMaxPool", 1, 1, 1, 1, convertGlobalMaxPool},
};

} // namespace

OpRows poolOps() { return kOps; }

} // namespace isthmus::onnx_import
