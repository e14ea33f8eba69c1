// The attributes that convolutions and pools share: strides, dilations, and padding in its several
// forms.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

struct WindowAttrs {
  Ints strides, dilations; // one per spatial axis, all positive
  Ints pads;               // low sides, then high sides
  std::string autoPad;     // NOTSET, VALID, SAME_UPPER or SAME_LOWER

  bool same() const { return autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER"; }
};

// Reads and checks the attributes for a window of these sizes. `pads` are as written, or zeros with
// `auto_pad`. The lists have the right lengths even after an error.
WindowAttrs windowAttrs(NodeContext &n, llvm::ArrayRef<int64_t> kernel);

// Computes the pads that `auto_pad` asks for on operands of these sizes. The result has ceil(size /
// stride) positions; an odd element is padded at the end (SAME_UPPER) or the beginning.
void padSame(WindowAttrs &w, llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> sizes);

// Splits padding of `total` elements between both sides of an axis; `oddAtEnd` says which side gets
// an odd one.
void splitPad(WindowAttrs &w, size_t axis, int64_t total, bool oddAtEnd);

} // namespace isthmus::onnx_import
