// Computing at import what depends on constants alone.
#pragma once

#include "ir/onnx/import.h"

namespace isthmus::onnx_import {

// Folds single calls, within limits in proportion to the file: a small file can ask for huge
// constants (Expand, Range) or long sums (MatMul). What goes over them stays a node.
class Folding {
public:
  Folding(const ConstantFolder &fold, int64_t fileBytes, double allowance)
      : fold_(fold), bytesLeft_(int64_t(allowance * double(64 << 20)) + 16 * fileBytes),
        flopsLeft_(allowance * 1e9 + 64.0 * double(fileBytes)) {}

  // Whether a constant of this many bytes may still be made; takes it from what is left.
  bool take(int64_t bytes);

  // Whether the importer itself may still look at this many elements; takes them from what is left.
  // One constant can be read by any number of nodes, so what is done for each reader must be
  // limited over all.
  bool look(int64_t elements);

  // The results, or nothing where the op is to stay a node: too large, random, no kernel. Views
  // cost nothing.
  std::optional<TensorList> run(const OpDef &op, const Attrs &attrs,
                                llvm::ArrayRef<Tensor> operands);

private:
  const ConstantFolder &fold_;
  int64_t bytesLeft_;
  double flopsLeft_;
};

} // namespace isthmus::onnx_import
