// The attributes that convolutions and pools share: strides, dilations, and padding in its several
// spellings.
#pragma once

#include "ir/onnx/node_context.h"

namespace isthmus::onnx_import {

struct WindowAttrs {
  Ints strides, dilations; // one per spatial axis, all positive
  Ints pads;               // low sides, then high sides
  std::string autoPad;     // NOTSET, VALID, SAME_UPPER or SAME_LOWER

  bool same() const { return autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER"; }
};

// Reads and checks them for a window of these sizes; `pads` are as written, zeros with `auto_pad`.
// After an error the lists have the right lengths still.
WindowAttrs windowAttrs(NodeContext &n, llvm::ArrayRef<int64_t> kernel);

// Works out the pads that `auto_pad` asks for on operands of these sizes: as many places as
// ceil(size / stride), the odd element at the end (SAME_UPPER) or the beginning.
void padSame(WindowAttrs &w, llvm::ArrayRef<int64_t> kernel, llvm::ArrayRef<int64_t> sizes);

// Splits padding of `total` elements between both sides of an axis; `oddAtEnd` says where an odd
// one goes.
void splitPad(WindowAttrs &w, size_t axis, int64_t total, bool oddAtEnd);

} // namespace isthmus::onnx_import
