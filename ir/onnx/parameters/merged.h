// Parameters that an exporter merged because they start equal, told apart again.
#pragma once

#include "ir/name_list.h"
#include "ir/onnx/parameters/exporter_records.h"

namespace isthmus::onnx_import {

// A tensor of its own, that begins with the data of an initializer.
struct TensorCopy {
  std::string name, of;
  std::string parameter; // what the exporter's records call it; may be empty
};

// Finds out which reader of a merged initializer meant which parameter, by the exporter's records
// of what the program's calls read, and lets the nodes read copies of that name.
std::vector<TensorCopy> separateByRecords(Model &m, const ExporterRecords &records);

// Gives every node that reads an initializer of these names, but for the first one, a copy.
std::vector<TensorCopy> separateReaders(Model &m, llvm::ArrayRef<NamePattern> names);

} // namespace isthmus::onnx_import
