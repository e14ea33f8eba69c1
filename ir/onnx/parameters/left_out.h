// Parameters that PyTorch's newer exporter leaves out because they start at zero.
#pragma once

#include "ir/onnx/parameters/exporter_records.h"
#include "ir/tensor.h"

namespace isthmus::onnx_import {

// The exporter's optimizer removes a bias of zeros from a product or a convolution, which changes
// nothing until it is learned: every fresh attention layer of PyTorch has one. Where the records
// tell of such a bias, it becomes an initializer of the model again, with its data, and an operand
// of its node. Returns their names.
std::vector<std::string> restoreBiases(Model &m, const ExporterRecords &records,
                                       llvm::StringMap<Tensor> &data);

} // namespace isthmus::onnx_import
