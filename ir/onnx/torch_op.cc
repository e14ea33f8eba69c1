#include "ir/onnx/torch_op.h"

#include "ir/onnx/rows.h"

namespace isthmus::onnx_import {

// "%amax : [num_users=1] = call_function[target=torch.ops.aten.amax.default](args = ...".
llvm::StringRef torchOp(const onnx::NodeProto &n) {
  llvm::StringRef note = onnx_rows::getMeta(n.metadata_props(), "pkg.torch.onnx.fx_node");
  return note.split("[target=torch.ops.").second.split(']').first;
}

} // namespace isthmus::onnx_import
