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

const Tensor *ValueFacts::constant(ValueId v) const {
  const Input *in = g_.inputOf(v);
  return in && in->kind == InputKind::Const && in->init.data ? &in->init.data : nullptr;
}

} // namespace isthmus
