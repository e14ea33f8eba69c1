// The rules of roles.h that distinguish parameters from constants, applied to each tensor alone.
#pragma once

#include "ir/onnx/parameters/candidates.h"

namespace isthmus::onnx_import {

// Sets the role of every candidate. Returns the names of parameters that are learned through a
// tensor that the exporter computed from them.
llvm::StringSet<> decideRoles(Candidates &candidates);

} // namespace isthmus::onnx_import
