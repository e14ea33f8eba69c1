#include "ir/factors.h"

#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

std::optional<size_t> Factors::axisOf(const Axes &axes, uint32_t factor) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].factor == factor)
      return i;
  return std::nullopt;
}

bool Factors::isRepeated(uint32_t result) const { return llvm::is_contained(repeated, result); }

uint32_t Factors::numFactors() const {
  uint32_t n = 0;
  auto count = [&](const Axes &axes) {
    for (const Axis &a : axes)
      if (a.factor != kWhole)
        n = std::max(n, a.factor + 1);
  };
  llvm::for_each(operands, count);
  llvm::for_each(results, count);
  return n;
}

std::string Factors::str() const {
  std::string s;
  auto print = [&](const Axes &axes, bool isRepeated) {
    s += s.empty() || s.back() == ' ' ? "" : " ";
    s += isRepeated ? "=[" : "[";
    for (const Axis &a : axes) {
      if (s.back() != '[')
        s += ", ";
      s += a.factor == kWhole ? "." : name(a.factor);
      if (a.isOfParts)
        s += "/";
      if (a.block != 1)
        s += "*" + std::to_string(a.block);
    }
    s += "]";
  };
  for (const Axes &axes : operands)
    print(axes, /*isRepeated=*/false);
  s += s.empty() ? "-> " : " -> ";
  for (uint32_t r = 0; r < results.size(); ++r)
    print(results[r], isRepeated(r));
  return s;
}

namespace {

Factors::Axes wholeAxes(const Type &t) { return Factors::Axes(t.dims.size()); }

// Axes of size one are whole.
Factors withoutOnes(const OpCall &call, Factors f) {
  auto mend = [](const Type &t, Factors::Axes &axes) {
    for (size_t i = 0; i < axes.size(); ++i)
      if (t.dims[i] == axes[i].block || t.dims[i] == 0)
        axes[i] = {};
  };
  for (size_t i = 0; i < f.operands.size(); ++i)
    mend(call.operands[i], f.operands[i]);
  for (size_t i = 0; i < f.results.size(); ++i)
    mend(call.results[i], f.results[i]);
  return f;
}

} // namespace

Factors wholeFactors(const OpCall &call) {
  Factors f;
  for (const Type &t : call.operands)
    f.operands.push_back(wholeAxes(t));
  for (const Type &t : call.results)
    f.results.push_back(wholeAxes(t));
  return f;
}

Factors broadcastFactors(const OpCall &call) {
  Factors f = wholeFactors(call);
  const Dims &all = call.results[0].dims;
  auto name = [&](const Type &t, Factors::Axes &axes) {
    for (size_t i = 0; i < axes.size(); ++i) {
      const size_t at = all.size() - axes.size() + i;
      if (t.dims[i] == all[at])
        axes[i].factor = uint32_t(at);
    }
  };
  for (size_t i = 0; i < f.operands.size(); ++i)
    name(call.operands[i], f.operands[i]);
  for (size_t i = 0; i < f.results.size(); ++i)
    name(call.results[i], f.results[i]);
  return f;
}

Factors leadingFactors(const OpCall &call, size_t count, llvm::ArrayRef<size_t> operands,
                       llvm::ArrayRef<size_t> results) {
  Factors f = wholeFactors(call);
  auto name = [&](Factors::Axes &axes) {
    for (size_t i = 0; i < std::min(count, axes.size()); ++i)
      axes[i].factor = uint32_t(i);
  };
  for (size_t i : operands)
    if (i < f.operands.size())
      name(f.operands[i]);
  for (size_t i : results)
    name(f.results[i]);
  return f;
}

Factors allButFactors(const OpCall &call, llvm::ArrayRef<int64_t> whole) {
  Factors f = wholeFactors(call);
  auto name = [&](Factors::Axes &axes) {
    for (size_t i = 0; i < axes.size(); ++i)
      if (!llvm::is_contained(whole, int64_t(i)))
        axes[i].factor = uint32_t(i);
  };
  llvm::for_each(f.operands, name);
  llvm::for_each(f.results, name);
  return f;
}

Factors offAxisFactors(const OpCall &call) {
  return allButFactors(call, {axisFromFront(call.attrs->getInt("axis"), call.results[0].rank())});
}

Factors factorsOf(const OpCall &call) {
  if (call.op->factors)
    return withoutOnes(call, call.op->factors(call));
  if (call.op->is(kElementwise) && call.op->effect == Effect::Pure)
    return withoutOnes(call, broadcastFactors(call));
  return wholeFactors(call);
}

int64_t strideOf(const Dims &dims, size_t axis) {
  int64_t stride = 1;
  for (int64_t d : llvm::makeArrayRef(dims).drop_front(axis + 1))
    stride *= d;
  return stride;
}

} // namespace isthmus
