// Convolutions, forward and transposed.

#include "ir/onnx/op_table.h"
#include "ir/onnx/window_attrs.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus::onnx_import {
namespace {

llvm::ArrayRef<int64_t> spatialSizes(const Type &t) {
  return llvm::makeArrayRef(t.dims).drop_front(2);
}

// Checks that data and weights have one rank, with 1 to 3 spatial axes, and that `kernel_shape`, if
// given, matches the weights.
bool checkOperands(NodeContext &n) {
  const Type &x = n.in(0).type, &w = n.in(1).type;
  if (x.rank() != w.rank() || x.rank() < 3 || x.rank() > 5)
    n.fail("expects data and weights of one rank, 3 to 5, got '{0}' and '{1}'", x.str(), w.str());
  auto kernel = n.intsAttr("kernel_shape");
  if (!n.failed() && kernel && llvm::makeArrayRef(*kernel) != spatialSizes(w))
    n.fail("expects the weights' sizes as attribute 'kernel_shape', got {0} for '{1}'",
           attrText(*kernel), w.str());
  return !n.failed();
}

// Data, weights, and the bias unless it is a constant zero. Exporters write a zero bias for every
// convolution without a bias, and its gradient would be wasted work.
llvm::SmallVector<Operand, 3> operands(NodeContext &n) {
  llvm::SmallVector<Operand, 3> all = {n.in(0), n.in(1)};
  if (!n.has(2))
    return all;
  const Operand &bias = n.in(2);
  bool zero = bias.isConstant() && n.state.folding.look(bias.type.elements());
  for (int64_t i = 0; zero && i < bias.type.elements(); ++i)
    zero = elementAsDouble(bias.data(), i) == 0;
  if (!zero)
    all.push_back(bias);
  return all;
}

Attrs rowAttrs(const WindowAttrs &w, int64_t groups) {
  return {{"strides", w.strides}, {"pads", w.pads}, {"dilations", w.dilations}, {"groups", groups}};
}

void convertConv(NodeContext &n) {
  if (!checkOperands(n))
    return;
  auto kernel = spatialSizes(n.in(1).type);
  WindowAttrs w = windowAttrs(n, kernel);
  int64_t groups = n.intAttr("group", 1);
  if (n.failed())
    return;
  padSame(w, kernel, spatialSizes(n.in(0).type));
  n.result(0, n.emit("conv", operands(n), rowAttrs(w, groups)));
}

// The result's sizes follow from the padding, or the padding follows from `output_shape` or
// `auto_pad`.
void convertConvTranspose(NodeContext &n) {
  if (!checkOperands(n))
    return;
  auto kernel = spatialSizes(n.in(1).type), sizes = spatialSizes(n.in(0).type);
  size_t rank = kernel.size();
  WindowAttrs w = windowAttrs(n, kernel);
  int64_t groups = n.intAttr("group", 1);
  Ints extra = n.intsAttr("output_padding").value_or(Ints());
  Ints shape = n.intsAttr("output_shape").value_or(Ints());
  if (extra.empty())
    extra.assign(rank, 0);
  if (shape.size() == rank + 2) // some writers give all axes
    shape.erase(shape.begin(), shape.begin() + 2);
  if (extra.size() != rank || (!shape.empty() && shape.size() != rank))
    n.fail("expects {0} numbers in attributes 'output_padding' and 'output_shape'", rank);
  constexpr int64_t kMost = int64_t(1) << 30;
  for (llvm::ArrayRef<int64_t> list : {llvm::makeArrayRef(extra), llvm::makeArrayRef(shape), sizes})
    for (int64_t v : list)
      if (v < 0 || v > kMost)
        n.fail("expects sizes in [0, 2^30], got {0}", v);
  if (n.failed())
    return;
  Ints dims;
  for (size_t i = 0; i < rank; ++i) {
    int64_t unpadded =
        (sizes[i] - 1) * w.strides[i] + extra[i] + (kernel[i] - 1) * w.dilations[i] + 1;
    if (!shape.empty() || w.same()) {
      int64_t want = shape.empty() ? sizes[i] * w.strides[i] : shape[i];
      // A larger result is extended at its end.
      splitPad(w, i, std::max<int64_t>(unpadded - want, 0), w.autoPad == "SAME_UPPER");
      dims.push_back(want);
    } else {
      dims.push_back(unpadded - w.pads[i] - w.pads[rank + i]);
    }
  }
  Attrs attrs = rowAttrs(w, groups);
  attrs.set("dims", dims);
  n.result(0, n.emit("conv_transpose", operands(n), std::move(attrs)));
}

constexpr OnnxOp kOps[] = {
    weighted(0b110, {"Conv", 1, 2, 3, 1, convertConv}),
    weighted(0b110, {"ConvTranspose", 1, 2, 3, 1, convertConvTranspose}),
};

} // namespace

OpRows convOps() { return kOps; }

} // namespace isthmus::onnx_import
