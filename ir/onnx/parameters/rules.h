// The rules of roles.h that tell a parameter from a constant, for each tensor on its own.
#pragma once

#include "ir/onnx/parameters/candidates.h"

namespace isthmus::onnx_import {

// Sets the role of every candidate. Gives the names of parameters that are learned as something
// that the exporter made of them.
llvm::StringSet<> decideRoles(Candidates &candidates);

} // namespace isthmus::onnx_import
