// Lists of numbers that converters make, as constants of the graph.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

// A constant of a float type. The numbers are rounded to it once, from double.
Operand numbers(NodeContext &n, const Type &type, llvm::ArrayRef<double> values);
// Whole numbers, in i64.
Operand numbers(NodeContext &n, llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> values);
// 0, 1, 2, ...: so many, of any number type.
Operand counting(NodeContext &n, DType type, int64_t count);

} // namespace isthmus::onnx_import
