// Determinants and inverses: a part of the matrix product family in a file of its own.
#pragma once

#include "ir/ops/families.h"

namespace isthmus {

void registerLinalgOps(OpRegistry &r);

} // namespace isthmus
