// Ops that compute nothing, but tell passes something about a value.

#include "ir/factors.h"
#include "ir/ops/families.h"
#include "ir/ops/signs.h"

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferSame(const InferContext &c) { return TypeList{c.operand(0)}; }

Factors factorsOfSame(const OpCall &c) { return allButFactors(c, {}); }
ValueList vjpIdentity(VjpContext &c) { return {c.grad(0)}; }
ValueId inverseIdentity(InverseContext &c, size_t) { return c.results[0]; }

} // namespace

void registerControlOps(OpRegistry &r) {
  r.add({{.name = "identity",
          .doc = "The operand under another name.",
          .operands = "x",
          .results = "y",
          .traits = kView,
          .infer = inferSame,
          .vjp = vjpIdentity,
          .inverse = inverseIdentity,
          .inverseKeepsBits = true,
          .sign = signOfOperands,
          .factors = factorsOfSame,
          .examples = {"identity(f64[2, 3])"}},
         {.name = "stop_gradient",
          .doc = "The operand, through which no gradient of any order flows. Rewrites put one, "
                 "called a boundary, between a checkpoint and the clones that read it; gradients "
                 "do flow through a boundary.",
          .operands = "x",
          .results = "y",
          .traits = kView | kStopsGradient,
          .infer = inferSame,
          .differentiable = Differentiable::ZeroGradient,
          .inverse = inverseIdentity,
          .inverseKeepsBits = true,
          .sign = signOfOperands,
          .factors = factorsOfSame,
          .examples = {"stop_gradient(f64[2, 3])"}}});
}

} // namespace isthmus
