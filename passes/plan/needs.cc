#include "passes/plan/needs.h"

#include "passes/plan/storage_graph.h"

#include <algorithm>

namespace isthmus::plan {

Needs::Needs(const Problem &p) {
  constexpr uint32_t kNone = ~0u;
  std::vector<char> needed = neededOps(p);
  std::vector<uint32_t> firstOf(p.ops.size(), kNone); // a view's: what it refers to
  auto storageOf = [&](const Read &r) {
    return firstOf[r.op] == kNone ? kNone : firstOf[r.op] + (p.ops[r.op].isView() ? 0 : r.output);
  };
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const plan::Op &from = p.ops[i];
    if (from.persistent || !needed[i])
      continue;
    if (from.isView()) {
      firstOf[i] = storageOf(from.inputs[from.viewOf]);
      continue;
    }
    Op op;
    op.source = i;
    op.cost = from.cost;
    op.workspace = p.rounded(from.workspace);
    op.mayRepeat = from.recomputable;
    for (const Read &r : from.inputs)
      if (uint32_t s = storageOf(r);
          s != kNone && std::find(op.reads.begin(), op.reads.end(), s) == op.reads.end())
        op.reads.push_back(s);
    op.firstMade = firstOf[i] = static_cast<uint32_t>(storages.size());
    op.numMade = static_cast<uint32_t>(std::max<size_t>(1, from.outputBytes.size()));
    storages.resize(storages.size() + op.numMade, {0, static_cast<uint32_t>(ops.size()), false});
    for (size_t k = 0; k < from.outputBytes.size(); ++k)
      storages[op.firstMade + k].bytes = p.rounded(from.outputBytes[k]);
    for (const plan::Op::Reuse &pair : from.mayReuse) {
      uint32_t read = storageOf(from.inputs[pair.input]), made = op.firstMade + pair.output;
      if (read != kNone && storages[read].bytes >= storages[made].bytes)
        op.mayReuse.push_back({made, read});
    }
    ops.push_back(std::move(op));
  }
  for (const Read &r : p.outputs)
    if (uint32_t s = storageOf(r); s != kNone)
      storages[s].lives = true;
}

} // namespace isthmus::plan
