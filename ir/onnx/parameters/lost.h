// Parameters that the exporter's records name and no tensor of the file is.
#pragma once

#include "ir/onnx/parameters/candidates.h"

namespace isthmus::onnx_import {

// `inPlace` holds the names of those that are learned as something made of them.
void tellLost(const Candidates &candidates, const llvm::StringSet<> &inPlace, Decisions &told);

} // namespace isthmus::onnx_import
