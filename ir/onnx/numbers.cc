#include "ir/onnx/numbers.h"

#include "ir/check.h"
#include <cstring>
#include <numeric>

namespace isthmus::onnx_import {
namespace {

// A constant of `values`; an error if it is too large for a model file of this size.
template <typename T>
Operand constantOf(NodeContext &n, const Type &type, llvm::ArrayRef<T> values) {
  ISTHMUS_CHECK(type.elements() == int64_t(values.size()), "as many numbers as elements");
  if (!n.state.folding.take(type.bytes())) {
    n.fail("would need a constant '{0}', too large for a model of {1} bytes", type.str(),
           n.state.model.fileBytes);
    return {};
  }
  return n.constant(Tensor::make(type, [&](char *out) {
    if (!values.empty())
      std::memcpy(out, values.data(), values.size() * sizeof(T));
  }));
}

} // namespace

Operand numbers(NodeContext &n, const Type &type, llvm::ArrayRef<double> values) {
  if (n.failed())
    return {};
  if (type.dtype == DType::F32) {
    std::vector<float> narrow(values.begin(), values.end());
    return constantOf<float>(n, type, narrow);
  }
  return n.cast(constantOf<double>(n, type.with(DType::F64), values), type.dtype);
}

Operand numbers(NodeContext &n, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> values) {
  return n.failed() ? Operand() : constantOf<int64_t>(n, Type(DType::I64, dims), values);
}

Operand counting(NodeContext &n, DType type, int64_t count) {
  Type whole(DType::I64, {count});
  if (n.failed())
    return {};
  if (!whole.isValid() || !n.state.folding.take(whole.bytes())) {
    n.fail("would count to {0}, which is too much for a model of {1} bytes", count,
           n.state.model.fileBytes);
    return {};
  }
  Operand numbers = n.constant(Tensor::make(whole, [&](char *out) {
    std::iota(reinterpret_cast<int64_t *>(out), reinterpret_cast<int64_t *>(out) + count, 0);
  }));
  return n.cast(numbers, type);
}

} // namespace isthmus::onnx_import
