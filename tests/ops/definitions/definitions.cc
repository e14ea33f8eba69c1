#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {

Number Numbers::broadcast(Sizes at) const {
  Index mine;
  for (size_t a = 0, skipped = at.size() - type.dims.size(); a < type.dims.size(); ++a)
    mine.push_back(type.dims[a] == 1 ? 0 : at[skipped + a]);
  return (*this)[mine];
}

size_t Numbers::flat(Sizes at) const { return size_t(flatOf(at, type.dims)); }

const Table &table() {
  static const Table *table = [] {
    auto *t = new Table;
    for (auto *define :
         {defineAttention, defineElementwise, defineIndexing, defineLinalg, defineNorm,
          defineOptimizer, defineRandom, defineReduce, defineShape, defineSoftmax, defineWindow})
      define(*t);
    return t;
  }();
  return *table;
}

int64_t axisOf(const OpCall &call, int64_t rank) {
  const int64_t axis = call.attrs->getInt("axis");
  return axis < 0 ? axis + rank : axis;
}
Index with(Sizes at, int64_t axis, int64_t i) {
  Index out(at.begin(), at.end());
  out[axis] = i;
  return out;
}
Index without(Sizes at, int64_t axis) {
  Index out(at.begin(), at.end());
  out.erase(out.begin() + axis);
  return out;
}
Index joined(Sizes a, Sizes b) {
  Index out(a.begin(), a.end());
  out.append(b.begin(), b.end());
  return out;
}
int64_t product(Sizes sizes) {
  int64_t n = 1;
  for (int64_t s : sizes)
    n *= s;
  return n;
}
int64_t flatOf(Sizes at, Sizes sizes) {
  int64_t n = 0;
  for (size_t a = 0; a < sizes.size(); ++a)
    n = n * sizes[a] + at[a];
  return n;
}
std::vector<Number> line(const Numbers &x, Sizes first, int64_t axis) {
  std::vector<Number> out;
  for (int64_t i = 0; i < x.size(axis); ++i)
    out.push_back(x[with(first, axis, i)]);
  return out;
}

Number wrapped(DType t, uint64_t bits) {
  return t == DType::I32  ? Number(int32_t(bits))
         : t == DType::U8 ? Number(uint8_t(bits))
                          : Number(int64_t(bits));
}
Number plus(DType t, Number a, Number b) {
  return isFloat(t) ? a + b : wrapped(t, uint64_t(int64_t(a)) + uint64_t(int64_t(b)));
}
Number times(DType t, Number a, Number b) {
  return isFloat(t) ? a * b : wrapped(t, uint64_t(int64_t(a)) * uint64_t(int64_t(b)));
}
Number least(DType t) {
  return isFloat(t)        ? -kInfinity
         : t == DType::I32 ? std::numeric_limits<int32_t>::min()
         : t == DType::I64 ? std::numeric_limits<int64_t>::min()
                           : 0;
}
Number greatest(DType t) {
  return isFloat(t)        ? kInfinity
         : t == DType::I32 ? std::numeric_limits<int32_t>::max()
         : t == DType::I64 ? std::numeric_limits<int64_t>::max()
         : t == DType::U8  ? 255
                           : 1;
}
Number truncated(DType t, Number v) {
  return std::isnan(v) ? 0 : std::trunc(std::min(std::max(v, least(t)), greatest(t)));
}
DType typeOf(const OpCall &call) { return *parseDType(call.attrs->getString("type")); }

} // namespace isthmus::definitions
