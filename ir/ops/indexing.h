// Gathers and scatters, and choice by order: parts of the shape family that are files of their own.
#pragma once

#include "ir/ops/families.h"

namespace isthmus {

void registerIndexingOps(OpRegistry &r); // gather_elements, gather_nd, scatter_elements, scatter_nd
void registerOrderOps(OpRegistry &r);    // top_k

} // namespace isthmus
