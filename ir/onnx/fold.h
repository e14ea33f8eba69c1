// Constant folding at import.
#pragma once

#include "ir/onnx/import.h"

namespace isthmus::onnx_import {

// Folds single calls, within limits proportional to the file size: a small file can ask for huge
// constants (Expand, Range) or long sums (MatMul). A call over the limits stays a node.
class Folding {
public:
  Folding(const ConstantFolder &fold, int64_t fileBytes, double allowance)
      : fold_(fold), bytesLeft_(int64_t(allowance * double(64 << 20)) + 16 * fileBytes),
        flopsLeft_(allowance * 1e9 + 64.0 * double(fileBytes)) {}

  // Whether a constant of this many bytes may still be made. If so, they are deducted from the
  // limit.
  bool take(int64_t bytes);

  // Whether the importer itself may still read this many elements. If so, they are deducted from
  // the limit. Any number of nodes can read one constant, so the work for all readers shares one
  // limit.
  bool look(int64_t elements);

  // The results, or nothing if the op must stay a node: too large, impure, or no kernel. Views are
  // free.
  std::optional<TensorList> run(const OpDef &op, const Attrs &attrs,
                                llvm::ArrayRef<Tensor> operands);

private:
  const ConstantFolder &fold_;
  int64_t bytesLeft_;
  double flopsLeft_;
};

} // namespace isthmus::onnx_import
