#include "tests/random/smooth.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// Gradients of rows with a bend: these jump though their results are floats and they have
// gradients.
constexpr llvm::StringRef kSteps[] = {"relu_grad", "leaky_relu_grad", "clamp_grad", "max_grad"};

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
