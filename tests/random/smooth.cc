#include "tests/random/smooth.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// Ops that jump although they have gradients: remainders, thresholds, and gradients of functions
// with a kink.
constexpr llvm::StringRef kSteps[] = {"mod",           "thresholded_relu", "shrink",
                                      "relu_grad",     "leaky_relu_grad",  "clamp_grad",
                                      "max_grad",      "elu_grad",         "hard_swish_grad",
                                      "max_pool_grad", "max_pool_take"};

bool isJump(const Graph &g, const Node &n) {
  if (n.op->is(kView) ||
      llvm::none_of(n.operands, [&](ValueId v) { return isFloat(g.type(v).dtype); }))
    return false;
  for (uint32_t r = 0; r < n.numResults; ++r)
    if (!isFloat(g.type(n.result(r)).dtype))
      return true;
  return n.op->differentiable == Differentiable::ZeroGradient ||
         llvm::is_contained(kSteps, n.op->name);
}

} // namespace

bool jumps(const Graph &g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (isJump(g, g.node(NodeId(i))))
      return true;
  return false;
}

bool fixesPrecision(const Graph &g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).op->name == "bitcast")
      return true;
  return false;
}

bool isDifferentiableInF64(const Graph &g) {
  if (g.type(g.loss).dtype != DType::F64)
    return false;
  for (uint32_t i = 0; i < g.numValues(); ++i)
    if (isFloat(g.type(ValueId(i)).dtype) && g.type(ValueId(i)).dtype != DType::F64)
      return false;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).op->is(kStopsGradient))
      return false;
  return true;
}

} // namespace isthmus
