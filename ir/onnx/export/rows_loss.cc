// Losses over class labels, as standard operators.

#include "ir/onnx/export/body.h"
#include "ir/rank.h"

namespace isthmus::onnx_export {
namespace {

using Names = std::vector<Name>;

// The labels of a row whose operand or result `x` has a class axis. `type` is the type of the loss.
struct Labels {
  const RowWriter &w;
  Body &b;
  Type x;
  DType type;
  Name labels; // i64
  int64_t axis;
  Name counted; // bool, with the labels' dims; empty if all labels count

  Labels(const RowWriter &w, const Type &x, size_t operand)
      : w(w), b(w.b), x(x), type(x.dtype == DType::F64 ? DType::F64 : DType::F32),
        labels(w.cast(w.x(operand), w.dtype(operand), DType::I64)),
        axis(axisFromFront(w.attrs.getInt("axis"), x.rank())) {
    for (int64_t ignored : w.attrs.getInts("ignore")) {
      Name other = b.emit("Not", {b.emit("Equal", {labels, b.integer(ignored)})});
      counted = counted.empty() ? other : b.emit("And", {counted, other});
    }
  }

  // A value of the labels' dims, with the class axis of size 1.
  Name withAxis(const Name &v) const {
    Dims dims = x.dims;
    dims[size_t(axis)] = 1;
    return w.reshape(v, dims);
  }
  Name orZero(const Name &v) const { // zero for ignored labels
    return counted.empty() ? v : b.emit("Where", {counted, v, b.number(type, 0)});
  }
  Name count() const { // the number of labels that count
    Dims dims = x.dims;
    dims.erase(dims.begin() + axis);
    if (counted.empty())
      return b.number(type, double(Type(type, dims).elements()));
    return b.emit("ReduceSum", {w.cast(counted, DType::Bool, type)}, {{"keepdims", int64_t(0)}});
  }
  // The element of v at each label. v has x's dims and the loss's type.
  Name taken(const Name &v) const {
    Name safe = counted.empty() ? labels : b.emit("Where", {counted, labels, b.integer(0)});
    Name at = b.emit("GatherElements", {v, withAxis(safe)}, {{"axis", axis}});
    Dims dims = x.dims;
    dims.erase(dims.begin() + axis);
    return w.reshape(at, dims);
  }
  Name reduced(const Name &each) const {
    std::string reduction = w.attrs.getString("reduction");
    Name all = orZero(each);
    if (reduction == "none")
      return all;
    Name sum = b.emit("ReduceSum", {all}, {{"keepdims", int64_t(0)}});
    return reduction == "sum" ? sum : b.emit("Div", {sum, count()});
  }
  // The gradient of each label's loss; with the class axis of size 1, unless it is a scalar.
  Name share(const Name &g) const {
    std::string reduction = w.attrs.getString("reduction");
    Name each = reduction == "mean" ? b.emit("Div", {g, count()}) : g;
    if (counted.empty())
      return reduction == "none" ? withAxis(each) : each;
    return withAxis(orZero(each)); // Where broadcasts a scalar to the labels
  }
  Name isLabel() const { // with x's dims: one at each label
    Dims along(size_t(x.rank()), 1);
    along[size_t(axis)] = x.dims[size_t(axis)];
    Name is = b.emit(
        "Equal", {w.reshape(b.ints(sequence(0, x.dims[size_t(axis)])), along), withAxis(labels)});
    return w.cast(is, DType::Bool, type);
  }
};

Names crossEntropy(const RowWriter &w) {
  Labels l(w, w.type(0), 1);
  Name x = w.cast(w.x(0), w.dtype(0), l.type), axes = w.b.ints({l.axis});
  Name most = w.b.emit("ReduceMax", {x, axes}, {{"keepdims", int64_t(1)}});
  Name terms = w.b.emit("Exp", {w.b.emit("Sub", {x, most})});
  Name sums = w.b.emit("ReduceSum", {terms, axes}, {{"keepdims", int64_t(1)}});
  Name lse = w.reshape(w.b.emit("Add", {w.b.emit("Log", {sums}), most}), w.results[1].dims);
  return {l.reduced(w.b.emit("Sub", {lse, l.taken(x)})), lse};
}

Names nll(const RowWriter &w) {
  Labels l(w, w.type(0), 1);
  return {l.reduced(w.b.emit("Neg", {l.taken(w.cast(w.x(0), w.dtype(0), l.type))}))};
}

Names nllGrad(const RowWriter &w) {
  Labels l(w, w.results[0], 1);
  Name dx = w.b.emit("Neg", {w.b.emit("Mul", {l.isLabel(), l.share(w.x(0))})});
  return {w.cast(dx, l.type, w.results[0].dtype)};
}

constexpr ExportRow kRows[] = {
    {"cross_entropy", crossEntropy},
    {"nll", nll},
    {"nll_grad", nllGrad},
};

} // namespace

ExportRows lossRows() { return kRows; }

} // namespace isthmus::onnx_export
