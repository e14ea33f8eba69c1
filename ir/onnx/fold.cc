#include "ir/onnx/fold.h"

#include "ir/view.h"

namespace isthmus::onnx_import {

bool Folding::take(int64_t bytes) {
  if (bytes > bytesLeft_)
    return false;
  bytesLeft_ -= bytes;
  return true;
}

bool Folding::look(int64_t elements) {
  if (double(elements) > flopsLeft_)
    return false;
  flopsLeft_ -= double(elements);
  return true;
}

std::optional<TensorList> Folding::run(const OpDef &op, const Attrs &attrs,
                                       llvm::ArrayRef<Tensor> operands) {
  if (op.effect != Effect::Pure)
    return std::nullopt;
  OpCall call;
  call.op = &op;
  Attrs complete = attrs;
  if (llvm::Error e = completeAttrs(op, complete)) {
    llvm::consumeError(std::move(e)); // reported with its location when the node is made
    return std::nullopt;
  }
  call.attrs = &complete;
  for (const Tensor &t : operands)
    call.operands.push_back(t.type);
  auto types = inferTypes(op, complete, call.operands);
  if (!types) {
    llvm::consumeError(types.takeError()); // likewise
    return std::nullopt;
  }
  call.results = *types;
  if (op.is(kView))
    return TensorList{viewOf(call, operands[0])};
  double flops = costOf(call).flops;
  int64_t bytes = 0;
  for (const Type &t : call.results)
    if (__builtin_add_overflow(bytes, t.bytes(), &bytes))
      return std::nullopt;
  if (!fold_ || flops > flopsLeft_ || !take(bytes))
    return std::nullopt;
  flopsLeft_ -= flops;
  auto results = fold_(call, operands);
  if (!results) {
    llvm::consumeError(
        results.takeError()); // no kernel for these types at import; another device may have one
    return std::nullopt;
  }
  return std::move(*results);
}

} // namespace isthmus::onnx_import
