#include "ir/onnx/parameters/tensor_names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus::onnx_import {
namespace {

bool isNumber(llvm::StringRef s) {
  return !s.empty() && s.find_first_not_of("0123456789") == llvm::StringRef::npos;
}

// "expand" of "expand_1".
llvm::StringRef withoutNumber(llvm::StringRef name) {
  auto [stem, number] = name.rsplit('_');
  return isNumber(number) ? stem : name;
}

} // namespace

bool isMadeUp(llvm::StringRef name) {
  if (name.startswith("onnx::") || name.startswith("/") || name.contains_insensitive("constant_") ||
      name.startswith_insensitive("const_"))
    return true;
  name.consume_front("val_");
  return isNumber(name) || isNumber(name.rsplit("__").second);
}

bool isIdentifier(llvm::StringRef name) {
  return !isMadeUp(name) &&
         llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '.'; });
}

bool isRearranging(llvm::StringRef name) {
  if (isMadeUp(name))
    return true;
  constexpr llvm::StringLiteral kOps[] = {
      "t",       "transpose", "permute",   "view",       "reshape", "unsafe_view", "_unsafe_view",
      "flatten", "squeeze",   "unsqueeze", "contiguous", "clone",   "to",          "_to_copy",
      "type_as", "alias",     "detach",    "expand"};
  return llvm::is_contained(kOps, withoutNumber(name));
}

bool isExpanding(llvm::StringRef name) { return withoutNumber(name) == "expand"; }

bool isNamedAverage(llvm::StringRef name) {
  return name.endswith(".running_mean") || name.endswith(kVarianceSuffix);
}

} // namespace isthmus::onnx_import
