// What the name of a tensor tells: the model's own, one that an exporter made up, an average.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace isthmus::onnx_import {

// Names that exporters make up for what has none in the model: "onnx::Mul_12", "val_72", "12",
// "/layer/Constant_output_0", "const_fold_opt__7".
bool isMadeUp(llvm::StringRef name);

// "logit_scale", "blocks.0.gamma": what a program calls a tensor, and not a path of operations.
bool isIdentifier(llvm::StringRef name);

// Whether a value of this name, by PyTorch's newer exporter, holds the elements of its operand.
bool isRearranging(llvm::StringRef name);

// Whether a value of this name, by PyTorch's newer exporter, repeats its operand.
bool isExpanding(llvm::StringRef name);

// "bn1.running_mean", "bn1.running_var": batch norm's averages, as PyTorch calls them.
inline constexpr llvm::StringLiteral kVarianceSuffix(".running_var");
bool isNamedAverage(llvm::StringRef name);

} // namespace isthmus::onnx_import
