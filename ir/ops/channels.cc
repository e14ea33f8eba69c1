#include "ir/ops/channels.h"

#include <algorithm>

namespace isthmus {

Ints toChannelsLast(int64_t rank) {
  Ints perm;
  for (int64_t a = 0; a < rank; ++a)
    perm.push_back(a == 0 || rank < 3 ? a : a == rank - 1 ? 1 : a + 1);
  return perm;
}

Ints toChannelsFirst(int64_t rank) {
  Ints perm;
  for (int64_t a = 0; a < rank; ++a)
    perm.push_back(a == 0 || rank < 3 ? a : a == 1 ? rank - 1 : a - 1);
  return perm;
}

Type channelsLast(const Type &t) {
  Type to = t;
  if (t.rank() > 2)
    std::rotate(to.dims.begin() + 1, to.dims.begin() + 2, to.dims.end());
  return to;
}

Type channelsFirst(const Type &t) {
  Type to = t;
  if (t.rank() > 2)
    std::rotate(to.dims.begin() + 1, to.dims.end() - 1, to.dims.end());
  return to;
}

OpCall channelsFirst(const OpCall &c) {
  OpCall to = c;
  if (isChannelsLast(*c.attrs)) {
    for (Type &t : to.operands)
      t = channelsFirst(t);
    for (Type &t : to.results)
      t = channelsFirst(t);
  }
  return to;
}

llvm::Expected<TypeList> inferEitherWay(const InferContext &c, ShapeRule rule) {
  if (!isChannelsLast(c.attrs))
    return rule(c);
  TypeList operands;
  for (const Type &t : c.operands)
    operands.push_back(channelsFirst(t));
  auto results = rule(InferContext(c.op, c.attrs, operands));
  if (!results)
    return addNote(results.takeError(), "types are told here as with channels on axis 1");
  for (Type &t : *results)
    t = channelsLast(t);
  return results;
}

} // namespace isthmus
