#include "ir/ops/families.h"

namespace isthmus {

void registerAllOps(OpRegistry &r) {
  registerControlOps(r);
  registerElementwiseOps(r);
  registerShapeOps(r);
  registerPartOps(r);
  registerReduceOps(r);
  registerMatmulOps(r);
  registerConvOps(r);
  registerPoolOps(r);
  registerInterpolateOps(r);
  registerNormOps(r);
  registerSoftmaxOps(r);
  registerAttentionOps(r);
  registerLossOps(r);
  registerRandomOps(r);
  registerOptimizerOps(r);
  registerTransferOps(r);
  registerMessageOps(r);
}

} // namespace isthmus
