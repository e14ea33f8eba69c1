// Ops that move elements: shapes, parts, and the views that only rename.

#include "tests/ops/definitions/definitions.h"

namespace isthmus::definitions {
namespace {

void full(const OpCall &call, Operands, Results y) {
  const double value = call.attrs->getFloat("value");
  const DType t = y[0].type.dtype;
  for (Number &v : y[0].values)
    v = isFloat(t) ? value : t == DType::Bool ? value != 0 : truncated(t, value);
}
void same(const OpCall &, Operands x, Results y) { y[0].values = x[0].values; }

void transpose(const OpCall &call, Operands x, Results y) {
  const Ints &perm = call.attrs->getInts("perm");
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    Index from(at.size());
    for (size_t a = 0; a < at.size(); ++a)
      from[size_t(perm[a])] = at[a];
    y[0][at] = x[0][from];
  });
}
void broadcast(const OpCall &, Operands x, Results y) {
  forEachIndex(y[0].type.dims, [&](const Index &at) { y[0][at] = x[0].broadcast(at); });
}
void slice(const OpCall &call, Operands x, Results y) {
  const Ints &starts = call.attrs->getInts("starts"), &steps = call.attrs->getInts("steps");
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    Index from;
    for (size_t a = 0; a < at.size(); ++a)
      from.push_back(starts[a] + at[a] * (steps.empty() ? 1 : steps[a]));
    y[0][at] = x[0][from];
  });
}

// The position that element i of a padded axis reads; -1 for the constant.
int64_t paddedFrom(int64_t i, int64_t size, const std::string &mode) {
  if (i >= 0 && i < size)
    return i;
  return mode == "edge"      ? (i < 0 ? 0 : size - 1)
         : mode == "reflect" ? (i < 0 ? -i : size - 1 - (i - (size - 1)))
         : mode == "wrap"    ? (i + size) % size
                             : -1;
}
void pad(const OpCall &call, Operands x, Results y) {
  const Ints &low = call.attrs->getInts("low");
  Numbers constant = y[0];
  full(call, {}, constant);
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    Index from;
    for (size_t a = 0; a < at.size(); ++a)
      from.push_back(paddedFrom(at[a] - low[a], x[0].type.dims[a], call.attrs->getString("mode")));
    y[0][at] = llvm::is_contained(from, -1) ? constant[at] : x[0][from];
  });
}

void concat(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, y[0].type.rank());
  int64_t start = 0;
  for (const Numbers &part : x) {
    forEachIndex(part.type.dims, [&](const Index &at) {
      y[0][with(at, axis, start + at[size_t(axis)])] = part[at];
    });
    start += part.size(axis);
  }
}
void split(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank());
  int64_t start = 0;
  for (Numbers &part : y) {
    forEachIndex(part.type.dims, [&](const Index &at) {
      part[at] = x[0][with(at, axis, start + at[size_t(axis)])];
    });
    start += part.size(axis);
  }
}
void trilu(const OpCall &call, Operands x, Results y) {
  const int64_t k = call.attrs->getInt("k");
  forEachIndex(y[0].type.dims, [&](const Index &at) {
    const int64_t diagonal = at.back() - at[at.size() - 2];
    if (call.attrs->getBool("upper") ? diagonal >= k : diagonal <= k)
      y[0][at] = x[0][at];
  });
}

void part(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank()), start = call.attrs->getInt("start");
  forEachIndex(y[0].type.dims,
               [&](const Index &at) { y[0][at] = x[0][with(at, axis, start + at[size_t(axis)])]; });
}
void writePart(const OpCall &call, Operands x, Results y) {
  const int64_t axis = axisOf(call, x[0].type.rank()), start = call.attrs->getInt("start");
  if (x.size() > 1)
    y[0].values = x[1].values;
  forEachIndex(x[0].type.dims,
               [&](const Index &at) { y[0][with(at, axis, start + at[size_t(axis)])] = x[0][at]; });
}
void shorten(const OpCall &, Operands x, Results y) { // zeros follow
  std::copy(x[0].values.begin(), x[0].values.end(), y[0].values.begin());
}

} // namespace

void defineShape(Table &t) {
  t["full"] = {full, Accuracy::Moves};
  t["transpose"] = {transpose, Accuracy::Moves};
  t["broadcast"] = {broadcast, Accuracy::Moves};
  t["slice"] = {slice, Accuracy::Moves};
  t["pad"] = {pad, Accuracy::Moves};
  t["concat"] = {concat, Accuracy::Moves};
  t["split"] = {split, Accuracy::Moves};
  t["trilu"] = {trilu, Accuracy::Moves};
  t["part"] = {part, Accuracy::Moves};
  t["write_part"] = {writePart, Accuracy::Moves};
  t["shorten"] = {shorten, Accuracy::Moves};
  t["reshape"] = t["identity"] = t["stop_gradient"] = {same, Accuracy::Moves};
}

} // namespace isthmus::definitions
