// Selection by order: top_k.

#include "ir/factors.h"
#include "ir/ops/indexing.h"
#include "ir/rank.h"
#include <cmath>

namespace isthmus {
namespace {

llvm::Expected<TypeList> inferTopK(const InferContext &c) {
  const Type &x = c.operand(0);
  if (x.dtype == DType::Bool)
    return c.error("expects numbers, got '{0}'", x.str());
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  int64_t k = c.attrs.getInt("k"), size = x.dims[*axis];
  if (k < 0 || k > size)
    return c.error("expects k in [0, {0}], the size of axis {1} of '{2}', got {3}", size, *axis,
                   x.str(), k);
  Type to = x;
  to.dims[*axis] = k;
  return TypeList{to, to.with(DType::I64)};
}

ValueList vjpTopK(VjpContext &c) {
  if (!c.hasGrad(0))
    return {ValueId()};
  return {c.b.create("scatter_elements", {c.b.zeros(c.type(c.operand(0))), c.result(1), c.grad(0)},
                     {{"axis", c.attrs.getInt("axis")}, {"reduction", std::string("add")}})};
}

Cost costTopK(const OpCall &c) {
  double n = double(c.operands[0].elements());
  return {n * (4 + std::log2(double(c.attrs->getInt("k")) + 1)),
          double(c.operands[0].bytes() + c.results[0].bytes() + c.results[1].bytes())};
}

} // namespace

void registerOrderOps(OpRegistry &r) {
  r.add(
      {{.name = "top_k",
        .doc = "The k largest (or smallest) elements along an axis, sorted, and their indices; "
               "equal elements stay in the order of their indices. NaN is larger than all numbers.",
        .operands = "x",
        .results = "values indices",
        .attrs = {{"axis", AttrKind::Int, int64_t(-1),
                   "the axis; negative ones count from the end"},
                  {"k", AttrKind::Int, {}, "the number of elements"},
                  {"largest", AttrKind::Bool, true, "the largest or the smallest"}},
        .infer = inferTopK,
        .vjp = vjpTopK,
        .cost = costTopK,
        .factors =
            [](const OpCall &c) {
              return allButFactors(c,
                                   {axisFromFront(c.attrs->getInt("axis"), c.results[0].rank())});
            },
        .examples = {"top_k(f64[2, 5]) {k = 3}", "top_k(f64[5, 2]) {axis = 0, k = 2}",
                     "top_k(f64[2, 4, 3]) {axis = 1, k = 4, largest = false}",
                     "top_k(i64[6]) {k = 2}", "top_k(f64[3]) {k = 0}"}}});
}

} // namespace isthmus
