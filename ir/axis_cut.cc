#include "ir/axis_cut.h"

#include "ir/factors.h"
#include "ir/parts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <numeric>

namespace isthmus {
namespace {

int64_t product(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

const Type &typeAt(const OpCall &call, CallPlace p) {
  return p.kind == CallPlace::Operand ? call.operands[p.index] : call.results[p.index];
}

const Factors::Axis &axisAt(const Factors &f, CallPlace p, AxisCut cut) {
  return (p.kind == CallPlace::Operand ? f.operands[p.index] : f.results[p.index])[cut.axis];
}

// Whether an axis has an element for each part of the factor: chunks must be of neighbours then.
bool isOfParts(const Factors &f, uint32_t factor) {
  auto has = [&](const Factors::Axes &axes) {
    const auto axis = Factors::axisOf(axes, factor);
    return axis && axes[*axis].isOfParts;
  };
  return llvm::any_of(f.operands, has) || llvm::any_of(f.results, has);
}

// Whether attributes can only tell of chunks along the factor that are one run of it: they count
// its parts, or the call draws numbers in runs already.
bool needsOneRun(const OpCall &call, const Factors &f, uint32_t factor) {
  return f.isCut(f.results[0], factor) && llvm::any_of(call.op->attrs, [&](const AttrDef &a) {
           return a.axes == AxisRole::Parts ||
                  (a.axes == AxisRole::First && call.attrs->getInt("run") > 0);
         });
}

// Whether an axis of a call that draws numbers in runs counts whole runs: it is cut between them,
// and other axes within each of them (ir/ops/random.cc).
bool countsRuns(const OpCall &call, size_t axis) {
  const int64_t run = call.attrs->getInt("run");
  return run > 0 && strideOf(call.results[0].dims, axis) % run == 0;
}

// The draws from one index of an axis to the next (AxisRole::First).
int64_t drawsPerIndex(const OpCall &call, size_t axis) {
  const int64_t inner = strideOf(call.results[0].dims, axis);
  return countsRuns(call, axis) ? inner / call.attrs->getInt("run") * call.attrs->getInt("stride")
                                : inner;
}

// The numbers that the elements of a chunk draw.
void setDrawsOfChunk(const OpCall &call, AxisCut cut, int64_t begin, int64_t size, Attrs &attrs) {
  const Type &whole = call.results[0];
  const int64_t inner = strideOf(whole.dims, cut.axis), run = attrs.getInt("run");
  attrs.set("first", attrs.getInt("first") + begin * drawsPerIndex(call, cut.axis));
  const bool isOneRun =
      product(llvm::makeArrayRef(whole.dims).take_front(cut.axis)) * cut.outer == 1;
  if (countsRuns(call, cut.axis) || (run == 0 && isOneRun))
    return;
  attrs.set("run", size * inner);
  if (run == 0)
    attrs.set("stride", cut.innerOf(whole) * inner);
}

} // namespace

const CallCuts::Of *CallCuts::at(CallPlace p) const {
  const std::optional<Of> &of = p.kind == CallPlace::Operand ? operands[p.index] : results[p.index];
  return of ? &*of : nullptr;
}

bool CallCuts::isRepeated(uint32_t result) const { return llvm::is_contained(repeated, result); }

std::optional<CallCuts> cutsOf(const OpCall &call, CallPlace from, AxisCut cut) {
  if (call.op->cuts)
    return call.op->cuts(call, from, cut);
  const Factors f = factorsOf(call);
  const uint32_t factor = axisAt(f, from, cut).factor;
  if (cut.outer > 1 && factor != Factors::kWhole && needsOneRun(call, f, factor))
    return std::nullopt;
  return cutsOf(call, f, from, cut);
}

std::optional<CallCuts> cutsOf(const OpCall &call, const Factors &f, CallPlace from, AxisCut cut) {
  const Factors::Axis &axis = axisAt(f, from, cut);
  if (axis.factor == Factors::kWhole)
    return std::nullopt;
  const int64_t units = typeAt(call, from).dims[cut.axis] / axis.block;
  if (cut.outer > 1 && (units % cut.outer != 0 || isOfParts(f, axis.factor)))
    return std::nullopt;
  auto cutOf = [&](const Type &t, const Factors::Axes &axes) -> std::optional<CallCuts::Of> {
    const auto at = Factors::axisOf(axes, axis.factor);
    if (!at)
      return std::nullopt;
    const AxisCut its{uint32_t(*at), cut.outer};
    return CallCuts::Of{its, its.innerOf(t) / axes[*at].block, axes[*at].isOfParts};
  };
  CallCuts out;
  for (size_t i = 0; i < call.operands.size(); ++i)
    out.operands.push_back(cutOf(call.operands[i], f.operands[i]));
  for (size_t i = 0; i < call.results.size(); ++i)
    out.results.push_back(cutOf(call.results[i], f.results[i]));
  out.repeated = f.repeated;
  const bool isSum = llvm::any_of(llvm::seq(0u, uint32_t(call.results.size())),
                                  [&](uint32_t r) { return out.isSum(r); });
  out.keepsBits = !llvm::is_contained(f.rounding, axis.factor) && !(isSum && cut.outer > 1);
  return out;
}

Attrs attrsOfChunk(const OpCall &call, AxisCut cut, int64_t begin, int64_t size) {
  Attrs attrs = *call.attrs;
  const Dims &whole = call.results[0].dims;
  for (const AttrDef &a : call.op->attrs)
    if (a.axes == AxisRole::Sizes || a.axes == AxisRole::Limits) {
      Ints sizes = attrs.getInts(a.name);
      sizes[cut.axis] = cut.outer * size;
      attrs.set(a.name, sizes);
    } else if (a.axes == AxisRole::First) {
      setDrawsOfChunk(call, cut, begin, size, attrs);
    } else if (a.axes == AxisRole::Parts && cut.axis == 0 && whole[0] > 0) {
      const int64_t parts = attrs.getInt(a.name);
      attrs.set(a.name,
                partsBefore(whole[0], parts, begin + size) - partsBefore(whole[0], parts, begin));
    }
  return attrs;
}

std::optional<int64_t> beginOfChunk(const OpCall &call, uint32_t axis, const Attrs &chunk) {
  for (const AttrDef &a : call.op->attrs)
    if (a.axes == AxisRole::First)
      if (const int64_t draws = drawsPerIndex(call, axis); draws > 0)
        return (chunk.getInt("first") - call.attrs->getInt("first")) / draws;
  return std::nullopt;
}

Dims splitDims(const Type &t, AxisCut cut) {
  Dims dims = t.dims;
  dims[cut.axis] = cut.innerOf(t);
  dims.insert(dims.begin() + cut.axis, cut.outer);
  return dims;
}

// With the axes before it, a cut axis has `before` outer parts in all. It is the inner part of that
// axis of the other value which begins at one of these parts and which they divide; both have as
// many elements from there, so shares of the one are shares of the other.
std::optional<CallCuts> cutsOfReshape(const OpCall &call, CallPlace from, AxisCut cut) {
  const bool isOperand = from.kind == CallPlace::Operand;
  const Type &own = typeAt(call, from), &other = isOperand ? call.results[0] : call.operands[0];
  if (own.elements() == 0)
    return std::nullopt;
  const int64_t before = product(llvm::makeArrayRef(own.dims).take_front(cut.axis)) * cut.outer;
  int64_t first = 1; // the elements of the axes before
  for (uint32_t axis = 0; axis < other.dims.size(); first *= other.dims[axis++]) {
    const int64_t size = other.dims[axis];
    if (before % first != 0 || size % (before / first) != 0)
      continue;
    const AxisCut its{axis, before / first};
    const int64_t places = std::gcd(cut.innerOf(own), its.innerOf(other));
    if (places < 2)
      continue;
    CallCuts out;
    out.operands.push_back(CallCuts::Of{isOperand ? cut : its, places});
    out.results.push_back(CallCuts::Of{isOperand ? its : cut, places});
    return out;
  }
  return std::nullopt;
}

} // namespace isthmus
