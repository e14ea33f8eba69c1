// Padding, in all its modes.

#include "ir/onnx/numbers.h"
#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

// The padding on each axis, 0 or more.
struct Amounts {
  Ints low, high;
  bool any() const {
    auto positive = [](int64_t a) { return a > 0; };
    return llvm::any_of(low, positive) || llvm::any_of(high, positive);
  }
};

// Crops by the negative amounts, before any padding. Returns the cropped operand and, in `amounts`,
// the positive amounts.
Operand cut(NodeContext &n, const Ints &pads, llvm::ArrayRef<int64_t> axes, Amounts &amounts) {
  const Operand &x = n.in(0);
  size_t rank = size_t(x.type.rank());
  Ints from(rank, 0), to(x.type.dims.begin(), x.type.dims.end());
  amounts.low.assign(rank, 0);
  amounts.high.assign(rank, 0);
  bool cuts = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    size_t a = size_t(axes[i]);
    int64_t before = pads[i], after = pads[axes.size() + i], size = x.type.dims[a];
    if (before < -size || after < -size ||
        size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) < 0) {
      n.fail("cuts more from axis {0} than the {1} elements there are", a, size);
      return x;
    }
    amounts.low[a] = std::max<int64_t>(before, 0);
    amounts.high[a] = std::max<int64_t>(after, 0);
    from[a] = std::max<int64_t>(-before, 0);
    to[a] -= std::max<int64_t>(-after, 0);
    cuts |= before < 0 || after < 0;
  }
  if (!cuts)
    return x;
  return n.emit("slice", {x}, {{"starts", from}, {"limits", to}, {"steps", Ints(rank, 1)}});
}

// The row reflects or wraps at most once around an axis. A larger padding continues the pattern, by
// a gather.
Operand gatherAround(NodeContext &n, const Operand &x, size_t axis, Amounts &amounts, bool mirror) {
  int64_t size = x.type.dims[axis], low = amounts.low[axis], high = amounts.high[axis];
  amounts.low[axis] = amounts.high[axis] = 0;
  int64_t total;
  if (size == 0 || __builtin_add_overflow(size + low, high, &total) ||
      !n.state.folding.take(total * 8)) {
    n.fail("cannot pad axis {0} of '{1}' by {2} and {3}", axis, x.type.str(), low, high);
    return x;
  }
  int64_t period = mirror ? std::max<int64_t>(1, 2 * (size - 1)) : size;
  Ints indices;
  for (int64_t i = -low; i < size + high; ++i) {
    int64_t at = (i % period + period) % period;
    indices.push_back(at < size ? at : period - at);
  }
  return n.emit("gather", {x, n.constant(intsTensor(indices))}, {{"axis", int64_t(axis)}});
}

// Pads with a value known only at run time. The padding of a mask marks where the value goes.
Operand padWithValue(NodeContext &n, const Operand &x, const Operand &value, const Attrs &attrs) {
  Operand inside = n.full(x.type.with(DType::Bool), 1);
  Operand one = n.reshape(value, {});
  return n.emit("where", {n.emit("pad", {inside}, attrs), n.emit("pad", {x}, attrs), one});
}

void pad(NodeContext &n, const Ints &pads, llvm::ArrayRef<int64_t> axes,
         std::optional<double> value) {
  std::string mode = n.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    n.fail("expects constant, reflect, edge or wrap as attribute 'mode', got '{0}'", mode);
  if (pads.size() != 2 * axes.size())
    n.fail("expects two amounts for each of {0} axes, got {1}", axes.size(), pads.size());
  if (n.failed())
    return;
  Amounts amounts;
  Operand y = cut(n, pads, axes, amounts);
  bool around = mode == "reflect" || mode == "wrap";
  for (size_t a = 0; a < amounts.low.size() && around && !n.failed(); ++a) {
    int64_t once = y.type.dims[a] - (mode == "reflect" ? 1 : 0);
    if (std::max(amounts.low[a], amounts.high[a]) > once)
      y = gatherAround(n, y, a, amounts, mode == "reflect");
  }
  if (!n.failed() && amounts.any()) {
    Attrs attrs = {{"low", amounts.low}, {"high", amounts.high}, {"mode", mode}};
    if (value || mode != "constant") {
      attrs.set("value", value.value_or(0));
      y = n.emit("pad", {y}, attrs);
    } else {
      y = padWithValue(n, y, n.in(2), attrs);
    }
  }
  n.result(0, y);
}

llvm::SmallVector<int64_t, 8> allAxes(int64_t rank) {
  llvm::SmallVector<int64_t, 8> axes;
  for (int64_t i = 0; i < rank; ++i)
    axes.push_back(i);
  return axes;
}

void convertPad1(NodeContext &n, llvm::StringRef name) {
  auto pads = n.intsAttr(name);
  if (!pads)
    return n.fail("expects an attribute '{0}'", name);
  pad(n, *pads, allAxes(n.in(0).type.rank()), n.floatAttr("value", 0));
}
void convertPadFirst(NodeContext &n) { convertPad1(n, "paddings"); }
void convertPad2(NodeContext &n) { convertPad1(n, "pads"); }

void convertPad(NodeContext &n) {
  int64_t rank = n.in(0).type.rank();
  Ints pads = n.ints(1);
  std::optional<double> value = 0.0;
  if (n.has(2)) {
    if (n.in(2).type.elements() != 1 || n.in(2).type.dtype != n.in(0).type.dtype)
      return n.fail("expects one element of '{0}' to pad with, got '{1}'",
                    dtypeName(n.in(0).type.dtype), n.in(2).type.str());
    // An attribute holds integers of up to 53 bits exactly.
    value = n.in(2).isConstant() ? std::optional<double>(n.scalar(2)) : std::nullopt;
    if (value && std::fabs(*value) > 0x1p53 && !isFloat(n.in(2).type.dtype))
      value = std::nullopt;
  }
  auto axes = allAxes(rank);
  if (n.has(3)) {
    Ints some = n.axesFromFront(n.ints(3), rank);
    axes.assign(some.begin(), some.end());
  }
  if (!n.failed())
    pad(n, pads, axes, value);
}

// Crops axes that are too large to their middle, and pads axes that are too small with zeros on
// both sides. The odd element is at the end.
void convertCenterCropPad(NodeContext &n) {
  const Type &x = n.in(0).type;
  auto axes = allAxes(x.rank());
  if (auto given = n.intsAttr("axes")) {
    Ints some = n.axesFromFront(*given, x.rank());
    axes.assign(some.begin(), some.end());
  }
  Ints shape = n.ints(1);
  if (!n.failed() && shape.size() != axes.size())
    n.fail("expects a size for each of {0} axes, got {1}", axes.size(), shape.size());
  if (n.failed())
    return;
  Ints pads(2 * axes.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    if (shape[i] < 0)
      return n.fail("expects sizes of 0 or more, got {0}", shape[i]);
    int64_t more = shape[i] - x.dims[size_t(axes[i])];
    pads[i] = more / 2; // rounds towards zero in both cases
    pads[axes.size() + i] = more - more / 2;
  }
  Amounts amounts;
  Operand y = cut(n, pads, axes, amounts);
  if (amounts.any())
    y = n.emit("pad", {y}, {{"low", amounts.low}, {"high", amounts.high}});
  n.result(0, y);
}

constexpr OnnxOp kOps[] = {
    {"Pad", 1, 1, 1, 1, convertPadFirst},
    {"Pad", 2, 1, 1, 1, convertPad2},
    {"Pad", 11, 2, 4, 1, convertPad, kAllButFirst},
    {"CenterCropPad", 18, 2, 2, 1, convertCenterCropPad, kAllButFirst},
};

} // namespace

OpRows padOps() { return kOps; }

} // namespace isthmus::onnx_import
