#include "ir/storage.h"

namespace isthmus {

std::vector<ValueId> storageRoots(const Graph &g) {
  std::vector<ValueId> roots(g.numValues());
  for (uint32_t i = 0; i < g.numValues(); ++i) {
    const Value &v = g.value(ValueId(i));
    bool isView = v.def && g.node(v.def).op->is(kView);
    roots[i] = isView ? roots[g.node(v.def).operands[0].index] : ValueId(i);
  }
  return roots;
}

} // namespace isthmus
