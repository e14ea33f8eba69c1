#include "passes/plan/storages.h"

#include <algorithm>

namespace isthmus::plan {

std::vector<char> neededOps(const Problem &p) {
  std::vector<char> needed(p.ops.size(), 0);
  std::vector<OpIndex> stack;
  auto need = [&](const Read &r) {
    if (!needed[r.op] && !p.ops[r.op].persistent) {
      needed[r.op] = 1;
      stack.push_back(r.op);
    }
  };
  for (const Read &r : p.outputs)
    need(r);
  for (OpIndex op : p.forwardOutputs)
    if (p.order == Order::Phases)
      need({op, 0});
  while (!stack.empty()) {
    OpIndex op = stack.back();
    stack.pop_back();
    for (const Read &r : p.ops[op].inputs)
      need(r);
  }
  return needed;
}

namespace {

constexpr uint32_t kNone = ~0u;

void addOnce(std::vector<uint32_t> &list, uint32_t x) {
  if (std::find(list.begin(), list.end(), x) == list.end())
    list.push_back(x);
}

} // namespace

Storages::Storages(const Problem &p, Views views) {
  std::vector<char> needed = neededOps(p);
  // Of each op: its first storage, or what its view refers to; and what else reading it touches.
  std::vector<uint32_t> firstOf(p.ops.size(), kNone);
  std::vector<std::vector<uint32_t>> touches(p.ops.size());
  auto storageOf = [&](const Read &r) {
    return firstOf[r.op] == kNone ? kNone : firstOf[r.op] + (p.ops[r.op].isView() ? 0 : r.output);
  };
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const plan::Op &from = p.ops[i];
    if (from.persistent || !needed[i])
      continue;
    std::vector<uint32_t> reads;
    for (const Read &r : from.inputs) {
      if (uint32_t s = storageOf(r); s != kNone)
        addOnce(reads, s);
      for (uint32_t s : touches[r.op])
        addOnce(reads, s);
    }
    if (from.isView()) {
      firstOf[i] = storageOf(from.inputs[from.viewOf]);
      if (views == Views::NeedAll) {
        touches[i] = std::move(reads);
        for (uint32_t s : touches[i]) // a new copy would need the view again
          if (!from.recomputable)
            ops[storages[s].maker].mayRepeat = false;
      }
      continue;
    }
    Op op;
    op.source = i;
    op.cost = from.cost;
    op.workspace = p.rounded(from.workspace);
    op.mayRepeat = from.recomputable;
    op.isBackward = from.phase != Phase::Forward;
    op.reads = std::move(reads);
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
