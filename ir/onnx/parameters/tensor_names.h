// What the name of a tensor reveals: the model's own name, one that an exporter made up, or an
// average.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace isthmus::onnx_import {

// Names that exporters make up for tensors without a name in the model: "onnx::Mul_12", "val_72",
// "12", "/layer/Constant_output_0", "const_fold_opt__7".
bool isMadeUp(llvm::StringRef name);

// "logit_scale", "blocks.0.gamma": the name of a tensor in a program, not a path of operations.
bool isIdentifier(llvm::StringRef name);

// Whether the name, by PyTorch's newer exporter, says that the value holds the elements of its
// operand.
bool isRearranging(llvm::StringRef name);

// Whether the name, by PyTorch's newer exporter, says that the value repeats its operand.
bool isExpanding(llvm::StringRef name);

// "bn1.running_mean", "bn1.running_var": PyTorch's names for batch norm's averages.
inline constexpr llvm::StringLiteral kVarianceSuffix(".running_var");
bool isNamedAverage(llvm::StringRef name);

} // namespace isthmus::onnx_import
