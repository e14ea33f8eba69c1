// Constants of the graph from lists of numbers.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// A constant of a float type. Each number is rounded once, from double.
Operand numbers(NodeContext &n, const Type &type, llvm::ArrayRef<double> values);
// A constant of integers, in i64.
Operand numbers(NodeContext &n, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> values);
// 0, 1, 2, ...: `count` elements of any numeric type.
Operand counting(NodeContext &n, DType type, int64_t count);

} // namespace isthmus::onnx_import
