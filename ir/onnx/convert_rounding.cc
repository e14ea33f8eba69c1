// Rounding and remainders. They have no rows: in models they compute sizes, and those are known at
// import.

#include "ir/onnx/op_table.h"
#include <cmath>

namespace isthmus::onnx_import {
namespace {

Operand float64s(NodeContext &n, const Type &type, llvm::ArrayRef<double> values) {
  Tensor wide = Tensor::make(type.with(DType::F64), [&](char *out) {
    if (!values.empty())
      __builtin_memcpy(out, values.data(), values.size() * sizeof(double));
  });
  return n.cast(n.constant(std::move(wide)), type.dtype);
}

void rounded(NodeContext &n, double (*f)(double)) {
  const Operand &x = n.in(0);
  if (!x.isConstant())
    return n.fail("is supported of values known at import only");
  if (!n.state.folding.take(x.type.elements() * 8))
    return n.fail("has an operand that is too large, '{0}'", x.type.str());
  std::vector<double> y;
  for (int64_t i = 0; i < x.type.elements(); ++i)
    y.push_back(f(elementAsDouble(x.data(), i)));
  n.result(0, float64s(n, x.type, y));
}
void convertFloor(NodeContext &n) { rounded(n, std::floor); }
void convertCeil(NodeContext &n) { rounded(n, std::ceil); }
void convertRound(NodeContext &n) { rounded(n, std::nearbyint); } // halves to even

// Python's remainder (the divisor's sign), or C's with `fmod`; of integers.
void convertMod(NodeContext &n) {
  bool asC = n.intAttr("fmod", 0) != 0;
  const Operand &a = n.in(0), &b = n.in(1);
  if (!a.isConstant() || !b.isConstant() || isFloat(a.type.dtype) || isFloat(b.type.dtype))
    return n.fail("is supported of integers known at import only, got '{0}' and '{1}'",
                  a.type.str(), b.type.str());
  if (a.type != b.type && b.type.elements() != 1)
    return n.fail("expects one divisor, or as many as numbers, got '{0}' and '{1}'", a.type.str(),
                  b.type.str());
  if (b.type.rank() > a.type.rank() || !n.state.folding.take(a.type.bytes()))
    return n.fail("has operands that are too large, '{0}' and '{1}'", a.type.str(), b.type.str());
  Ints y;
  for (int64_t i = 0; i < a.type.elements(); ++i) {
    int64_t v = elementAsInt(a.data(), i),
            d = elementAsInt(b.data(), b.type.elements() == 1 ? 0 : i);
    if (d == 0)
      return n.fail("divides integers by zero");
    int64_t r = d == -1 ? 0 : v % d;
    y.push_back(!asC && r != 0 && (r < 0) != (d < 0) ? r + d : r);
  }
  n.result(0, n.cast(n.reshape(n.constant(intsTensor(y)), a.type.dims), a.type.dtype));
}

constexpr OnnxOp kOps[] = {
    {"Floor", 1, 1, 1, 1, convertFloor, kAllOperands},
    {"Ceil", 1, 1, 1, 1, convertCeil, kAllOperands},
    {"Round", 11, 1, 1, 1, convertRound, kAllOperands},
    {"Mod", 10, 2, 2, 1, convertMod, kAllOperands},
};

} // namespace

OpRows roundingOps() { return kOps; }

} // namespace isthmus::onnx_import
