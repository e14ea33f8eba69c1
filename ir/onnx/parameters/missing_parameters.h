// Parameters that the exporter's records name but the file does not hold.
#pragma once

#include "ir/onnx/parameters/candidates.h"

namespace isthmus::onnx_import {

// Reports them. `inPlace`: parameters learned through a tensor computed from them; these are not
// lost.
void reportMissing(const Candidates &candidates, const llvm::StringSet<> &inPlace,
                   Decisions &decisions);

} // namespace isthmus::onnx_import
