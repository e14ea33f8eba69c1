#include "ir/value_facts.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

ValueFacts::ValueFacts(const Graph &g) : g_(g), facts_(g.numValues()) {
  for (const Input &in : g.inputs())
    facts_[in.value.index].isWeight = in.kind != InputKind::Input;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    Facts of;
    of.isWeight = n.op->effect == Effect::Pure &&
                  llvm::all_of(n.operands, [&](ValueId v) { return facts_[v.index].isWeight; });
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
  const Input *in = g_.inputOf(v);
  if (!in || in->kind != InputKind::Const || !in->init.data)
    return false;
  DType t = in->init.data.type.dtype;
  return t == DType::I64   ? namesEachOnce<int64_t>(in->init.data)
         : t == DType::I32 ? namesEachOnce<int32_t>(in->init.data)
                           : false;
}

} // namespace isthmus
