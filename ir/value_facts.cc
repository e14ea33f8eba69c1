#include "ir/value_facts.h"

#include "ir/element.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <optional>

namespace isthmus {

// The sign that all elements have.
static Sign signOf(const Tensor &t) {
  Sign least = Sign::Positive;
  for (int64_t i = 0, n = t.type.elements(); i < n && least != Sign::Any; ++i) {
    const double e = elementAsDouble(t, i);
    least = std::min(least, e > 0 ? Sign::Positive : e == 0 ? Sign::Any : Sign::NonZero);
  }
  return least;
}

// None: the elements are not known.
static std::optional<Sign> signOf(const Initializer &init) {
  const auto signOfNumber = [](double d) {
    return d > 0 ? Sign::Positive : d == 0 ? Sign::Any : Sign::NonZero;
  };
  switch (init.kind) {
  case Initializer::Kind::Data:
    return init.data ? std::optional(signOf(init.data)) : std::nullopt;
  case Initializer::Kind::Fill:
    return signOfNumber(init.args.getFloat("value"));
  case Initializer::Kind::Uniform:
    return init.args.getFloat("low") > 0 ? std::optional(Sign::Positive) : std::nullopt;
  default:
    return std::nullopt;
  }
}

static bool isIndex(const OpCall &call, size_t operand) {
  return call.op->indexBound && call.op->indexBound(call, operand);
}

ValueFacts::ValueFacts(const Graph &g, bool areWeightsFixed) : g_(g), facts_(g.numValues()) {
  for (const Input &in : g.inputs()) {
    Facts &of = facts_[in.value.index];
    of.isWeight = in.kind != InputKind::Input;
    if (in.kind == InputKind::Const || (areWeightsFixed && in.kind == InputKind::Param))
      if (const auto sign = signOf(in.init)) {
        of.sign = *sign;
        of.isOfZeros = *sign == Sign::Any;
      }
  }
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    Facts of;
    of.isWeight = n.op->effect == Effect::Pure &&
                  llvm::all_of(n.operands, [&](ValueId v) { return facts_[v.index].isWeight; });
    for (size_t k = 0; of.isWeight && k < n.operands.size(); ++k)
      of.isOfZeros |= facts_[n.operands[k].index].isOfZeros && !isIndex(g.call(NodeId(i)), k);
    if (n.op->sign) {
      llvm::SmallVector<Sign, 4> signs;
      for (ValueId v : n.operands)
        signs.push_back(facts_[v.index].sign);
      of.sign = n.op->sign(n.attrs, signs);
    }
    for (uint32_t r = 0; r < n.numResults; ++r)
      facts_[n.result(r).index] = of;
  }
}

const Tensor *ValueFacts::contents(ValueId v) const {
  const Input *in = g_.inputOf(v);
  return in && in->kind == InputKind::Const && in->init.data ? &in->init.data : nullptr;
}

template <typename T> static bool namesEachOnce(const Tensor &t) {
  int64_t n = t.type.elements();
  std::vector<bool> isNamed(size_t(n), false);
  for (int64_t i = 0; i < n; ++i) {
    int64_t place = t.as<T>()[i];
    if (place < 0 || place >= n || isNamed[size_t(place)])
      return false;
    isNamed[size_t(place)] = true;
  }
  return true;
}

bool ValueFacts::isPermutation(ValueId v) const {
  const Tensor *t = contents(v);
  return !t                            ? false
         : t->type.dtype == DType::I64 ? namesEachOnce<int64_t>(*t)
         : t->type.dtype == DType::I32 ? namesEachOnce<int32_t>(*t)
                                       : false;
}

} // namespace isthmus
