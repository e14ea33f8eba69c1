// Separates parameters that an exporter merged because their initial values are equal.
#pragma once

#include "ir/name_list.h"
#include "ir/onnx/parameters/exporter_records.h"

namespace isthmus::onnx_import {

// A separate tensor that starts with the data of an initializer.
struct TensorCopy {
  std::string name, of;
  std::string parameter; // its parameter in the exporter's records; may be empty
};

// Finds which parameter each reader of a merged initializer meant, from the exporter's records of
// the program's calls. The nodes of `m` then read copies named after the parameters.
std::vector<TensorCopy> separateByRecords(Model &m, const ExporterRecords &records);

// Gives every node that reads an initializer of these names a copy, except the first node.
std::vector<TensorCopy> separateReaders(Model &m, llvm::ArrayRef<NamePattern> names);

} // namespace isthmus::onnx_import
