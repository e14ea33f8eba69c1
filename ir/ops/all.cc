#include "ir/ops/families.h"

namespace isthmus {

void registerAllOps(OpRegistry &r) {
  registerControlOps(r);
  registerElementwiseOps(r);
}

} // namespace isthmus
