// Running sums and products: a part of the reduction family in a file of its own.
#pragma once

#include "ir/ops/families.h"

namespace isthmus {

void registerScanOps(OpRegistry &r); // cumsum, cumprod, recurrence

} // namespace isthmus
