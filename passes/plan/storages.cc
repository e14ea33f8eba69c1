#include "passes/plan/storages.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {

std::vector<char> neededOps(const Problem &p) {
  std::vector<char> needed(p.ops.size(), 0);
  std::vector<OpIndex> stack;
  auto need = [&](const Read &r) {
    if (!needed[r.op] && !p.ops[r.op].isPinned) {
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

std::vector<uint32_t> Storages::readsOf(const Problem &p, const plan::Op &op) const {
  std::vector<uint32_t> reads;
  metAt_.resize(storages.size(), 0);
  ++numCalls_;
  auto add = [&](uint32_t s) {
    if (s != kNone && std::exchange(metAt_[s], numCalls_) != numCalls_)
      reads.push_back(s);
  };
  for (const Read &r : op.inputs) {
    add(storageOf(p, r));
    for (uint32_t s : touches_[r.op])
      add(s);
  }
  return reads;
}

std::vector<Storages::Op::Donation> Storages::reuseOf(const Problem &p, const plan::Op &op,
                                                      uint32_t firstMade) const {
  std::vector<Op::Donation> pairs;
  for (const plan::Op::Donation &pair : op.donations) {
    uint32_t read = storageOf(p, op.inputs[pair.input]), made = firstMade + pair.output;
    if (read != kNone && storages[read].bytes >= storages[made].bytes)
      pairs.push_back({made, read});
  }
  return pairs;
}

Storages::Storages(const Problem &p, Views views)
    : needed_(neededOps(p)), firstOf_(p.ops.size(), kNone), touches_(p.ops.size()) {
  for (OpIndex i = 0; i < p.ops.size(); ++i) {
    const plan::Op &from = p.ops[i];
    if (from.isPinned || !needed_[i])
      continue;
    std::vector<uint32_t> reads = readsOf(p, from);
    if (from.isView()) {
      firstOf_[i] = storageOf(p, from.inputs[from.viewOf]);
      if (views == Views::NeedAll) {
        touches_[i] = std::move(reads);
        for (uint32_t s : touches_[i])
          if (!from.recomputable) { // a new copy would need the view again
            ops[storages[s].maker].mayRepeat = false;
            storages[s].isPinned = true;
          }
      }
      continue;
    }
    Op op;
    op.source = i;
    op.cost = from.cost;
    op.workspace = p.rounded(from.workspace);
    op.mayRepeat = from.recomputable;
    op.isBackward = from.phase != OpPhase::Forward;
    op.reads = std::move(reads);
    op.firstMade = firstOf_[i] = static_cast<uint32_t>(storages.size());
    op.numMade = static_cast<uint32_t>(std::max<size_t>(1, from.outputBytes.size()));
    storages.resize(storages.size() + op.numMade, {0, static_cast<uint32_t>(ops.size())});
    for (size_t k = 0; k < from.outputBytes.size(); ++k)
      storages[op.firstMade + k].bytes = p.rounded(from.outputBytes[k]);
    op.donations = reuseOf(p, from, op.firstMade);
    ops.push_back(std::move(op));
  }
  for (const Read &r : p.outputs)
    if (uint32_t s = storageOf(p, r); s != kNone)
      storages[s].lives = true;
}

} // namespace isthmus::plan
