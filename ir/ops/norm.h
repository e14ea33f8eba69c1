// Shared by the files of the normalisations.
#pragma once

#include "ir/ops/families.h"
#include "ir/rank.h"
#include "ir/value_facts.h"

namespace isthmus {

void addRmsNorm(OpRegistry &r);   // rms_norm.cc
void addGroupNorm(OpRegistry &r); // group_norm.cc
void addLrn(OpRegistry &r);       // lrn.cc
void addMicroNorm(OpRegistry &r); // micro_norm.cc

// For a norm whose operand 1 is its scale: a zero in the scale loses the elements that it
// multiplies.
inline bool scaleIsNeverZero(const ValueFacts &facts, const Node &n, size_t) {
  return facts.isNeverZero(n.operands[1]);
}

// The element type of statistics of a tensor with elements of type `t`.
inline DType statisticsType(DType t) { return t == DType::F64 ? DType::F64 : DType::F32; }

inline llvm::Error expectEpsilon(const InferContext &c) {
  if (c.attrs.getFloat("epsilon") >= 0)
    return llvm::Error::success();
  return c.error("expects an epsilon of 0 or more, got {0}",
                 floatText(c.attrs.getFloat("epsilon")));
}

// The shape of layer norm's statistics: the normalised axes have size one.
inline llvm::Expected<Dims> layerStatistics(const InferContext &c, const Type &x, size_t scale) {
  auto axis = c.axis(c.attrs.getInt("axis"), x.rank());
  if (!axis)
    return axis.takeError();
  llvm::ArrayRef<int64_t> inner = llvm::makeArrayRef(x.dims).drop_front(*axis);
  const Type &s = c.operand(scale);
  if (llvm::makeArrayRef(s.dims) != inner)
    return c.error("expects a scale of the normalised sizes, '{0}', got '{1}'",
                   Type(s.dtype, inner).str(), s.str());
  if (s.dtype != x.dtype && s.dtype != statisticsType(x.dtype))
    return c.error("expects a scale of {0} or {1}, got '{2}'", dtypeName(x.dtype),
                   dtypeName(statisticsType(x.dtype)), s.str());
  Dims dims = x.dims;
  std::fill(dims.begin() + *axis, dims.end(), 1);
  return dims;
}

// The number of axes of operand `x` before `axis`, the first of those normalised together.
inline size_t outerAxes(const OpCall &c, size_t x) {
  return size_t(axisFromFront(c.attrs->getInt("axis"), c.operands[x].rank()));
}

// Helps to build gradients of norms over the axes from `axis` on. Statistics keep x's rank, so they
// broadcast without a reshape.
struct Layer {
  Builder &b;
  Type x;
  double count = 1;
  Ints inner, outer;

  Layer(Builder &b, const Type &x, int64_t axis) : b(b), x(x.with(statisticsType(x.dtype))) {
    axis = axisFromFront(axis, x.rank());
    for (int64_t a = 0; a < x.rank(); ++a)
      (a < axis ? outer : inner).push_back(a);
    for (int64_t a : inner)
      count *= double(x.dims[a]);
  }
  ValueId wide(ValueId v) const { return b.cast(v, x.dtype); }
  ValueId mean(ValueId v) const { return b.scale(b.sum(v, inner, /*keepDims=*/true), 1 / count); }
  // `v` summed over the outer axes, to the shape of the scale. Without outer axes it returns `v`,
  // because an empty list would mean all axes.
  ValueId total(ValueId v) const { return outer.empty() ? v : b.sum(v, outer, /*keepDims=*/false); }
};

// x is read once for the statistics and once for the result.
inline Cost costNorm(const OpCall &c, size_t x, double flopsEach) {
  Cost cost;
  for (const Type &t : c.operands)
    cost.bytes += double(t.bytes());
  for (const Type &t : c.results)
    cost.bytes += double(t.bytes());
  cost.bytes += double(c.operands[x].bytes()) * (x + 1);
  cost.flops = flopsEach * double(c.operands[x].elements());
  return cost;
}

} // namespace isthmus
