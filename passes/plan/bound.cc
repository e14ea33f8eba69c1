#include "passes/plan/bound.h"

#include "passes/plan/bounds/peak_bound.h"
#include "passes/plan/planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace isthmus::plan {
namespace {

// Tells whether all outputs can be made without an op, by any alternatives.
class Reachability {
public:
  explicit Reachability(const Problem &p) : p_(p), firstSlot_(1, 0) {
    for (const Op &op : p.ops)
      firstSlot_.push_back(firstSlot_.back() +
                           uint32_t(std::max<size_t>(1, op.outputBytes.size())));
    readers_.resize(firstSlot_.back());
    for (OpIndex i = 0; i < p.ops.size(); ++i)
      for (const Read &r : p.ops[i].inputs)
        readers_[slot(r)].push_back(i);
  }

  // Whether all outputs can be made although `op` never runs.
  bool canDoWithout(OpIndex banned) {
    has_.assign(readers_.size(), 0);
    missing_.assign(p_.ops.size(), 0);
    todo_.clear();
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      missing_[i] = p_.ops[i].isPinned ? 0 : uint32_t(p_.ops[i].inputs.size());
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      if (missing_[i] == 0 && i != banned)
        run(i);
    while (!todo_.empty()) {
      uint32_t s = todo_.back();
      todo_.pop_back();
      for (OpIndex i : readers_[s])
        if (!p_.ops[i].isPinned && --missing_[i] == 0 && i != banned)
          run(i);
    }
    auto isMade = [&](const Read &r) { return has_[slot(r)] != 0; };
    return std::all_of(p_.outputs.begin(), p_.outputs.end(), isMade) &&
           (p_.order != Order::Phases ||
            std::all_of(p_.forwardOutputs.begin(), p_.forwardOutputs.end(), [&](OpIndex i) {
              return std::all_of(has_.begin() + firstSlot_[i], has_.begin() + firstSlot_[i + 1],
                                 [](char has) { return has; });
            }));
  }

private:
  uint32_t slot(const Read &r) const { return firstSlot_[r.op] + r.output; }

  void run(OpIndex i) {
    const Op &op = p_.ops[i];
    make(firstSlot_[i], firstSlot_[i + 1]);
    if (op.of == Op::kNone)
      return;
    if (op.ofOutput == Op::kAllOutputs)
      make(firstSlot_[op.of], firstSlot_[op.of + 1]);
    else
      make(firstSlot_[op.of] + op.ofOutput, firstSlot_[op.of] + op.ofOutput + 1);
  }

  void make(uint32_t from, uint32_t to) {
    for (uint32_t s = from; s < to; ++s)
      if (!has_[s]) {
        has_[s] = 1;
        todo_.push_back(s);
      }
  }

  const Problem &p_;
  std::vector<uint32_t> firstSlot_; // by op: its outputs
  std::vector<std::vector<OpIndex>> readers_;
  std::vector<char> has_;
  std::vector<uint32_t> missing_, todo_;
};

// The larger of all outputs and the largest working set of an op that every schedule runs.
int64_t peakWithAlternatives(const Problem &p, const Needs &needs) {
  constexpr size_t kMostLookedAt = 64;
  int64_t most = outputBytes(needs);
  Reachability reachable(p);
  for (const SizedTask &t : largestWorkingSets(needs, kMostLookedAt)) {
    if (t.bytes <= most)
      break;
    if (!reachable.canDoWithout(needs.tasks[t.task].source))
      most = t.bytes;
  }
  return most;
}

// Whether a prefetch can stand for the first run of an op. A prefetch of the op's own result
// cannot.
bool canFetchFirst(const Problem &p) {
  auto base = [&](Read r) {
    while (p.ops[r.op].isView())
      r = p.ops[r.op].inputs[p.ops[r.op].viewOf];
    return r;
  };
  return std::any_of(p.ops.begin(), p.ops.end(), [&](const Op &op) {
    if (op.of == Op::kNone || op.transfer == Op::Transfer::None)
      return false;
    // The storages that the offload of this prefetch copied.
    const Op &onHost = p.ops[p.ops[op.inputs[0].op].inputs[0].op];
    const std::vector<Read> &offloaded = p.ops[onHost.inputs[0].op].inputs;
    for (uint32_t k = 0; k < op.outputBytes.size(); ++k) {
      uint32_t output = op.ofOutput == Op::kAllOutputs ? k : op.ofOutput;
      if (offloaded.size() <= k || base(offloaded[k]) != Read{op.of, output})
        return true;
    }
    return false;
  });
}

// The ops that run in every schedule, themselves or by another form, and the least cost of each.
class LeastCost {
public:
  explicit LeastCost(const Problem &p) : p_(p), forms_(p.ops.size()) { findForms(); }

  double sum() {
    for (const Read &r : p_.outputs)
      need(r.op);
    for (OpIndex i : p_.forwardOutputs)
      if (p_.order == Order::Phases)
        need(i);
    double cost = 0;
    while (!todo_.empty()) {
      const OpIndex op = todo_.back();
      todo_.pop_back();
      for (OpIndex read : alwaysRead(op))
        need(read);
    }
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      cost += isNeeded_[i] ? leastOf(i) : 0;
    return cost;
  }

private:
  void need(OpIndex i) {
    if (p_.ops[i].isPinned || isNeeded_[i])
      return;
    isNeeded_[i] = 1;
    todo_.push_back(i);
  }

  // An inverse reads storages that cannot be made without the op that it is of. It never makes the
  // first instance, since it would read storages made from an earlier one; so it stands for no run
  // of that op. An alternative that reads later ops may be an inverse, and is a form if it is not.
  void findForms() {
    std::vector<OpIndex> maybeInverse;
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      if (const Op &op = p_.ops[i]; op.of != Op::kNone && op.transfer == Op::Transfer::None) {
        const std::vector<OpIndex> reads = readsOf(i);
        if (std::any_of(reads.begin(), reads.end(), [&](OpIndex r) { return r > op.of; }))
          maybeInverse.push_back(i);
        else
          forms_[op.of].push_back(i);
      }
    for (bool isAny = true; std::exchange(isAny, false);)
      std::erase_if(maybeInverse, [&](OpIndex i) {
        if (needsFirst(p_.ops[i].of, i))
          return false;
        forms_[p_.ops[i].of].push_back(i);
        return isAny = true;
      });
  }

  // Whether `op` has to run before `reader` can read its operands. Examines a few ops.
  bool needsFirst(OpIndex op, OpIndex reader) const {
    constexpr size_t kMost = 64;
    std::vector<OpIndex> seen = readsOf(reader);
    for (size_t i = 0; i < seen.size() && i < kMost; ++i) {
      if (seen[i] == op)
        return true;
      if (p_.ops[seen[i]].isAlternative || seen[i] < op)
        continue;
      for (OpIndex r : alwaysRead(seen[i]))
        if (std::find(seen.begin(), seen.end(), r) == seen.end())
          seen.push_back(r);
    }
    return false;
  }

  double leastOf(OpIndex i) const {
    double least = p_.ops[i].cost;
    for (OpIndex form : forms_[i])
      least = std::min(least, p_.ops[form].cost);
    return least;
  }

  // The ops that an op reads, sorted. Behind helpers, which are alternatives to no op, also the ops
  // that these read, to some depth.
  std::vector<OpIndex> readsOf(OpIndex i) const {
    constexpr int kDeepest = 8;
    std::vector<OpIndex> reads;
    addReads(i, kDeepest, reads);
    std::sort(reads.begin(), reads.end());
    return reads;
  }

  void addReads(OpIndex i, int depth, std::vector<OpIndex> &reads) const {
    for (const Read &r : p_.ops[i].inputs) {
      reads.push_back(r.op);
      if (const Op &from = p_.ops[r.op]; from.isAlternative && from.of == Op::kNone && depth > 0)
        addReads(r.op, depth - 1, reads);
    }
  }

  // The ops that the op and all its forms read.
  std::vector<OpIndex> alwaysRead(OpIndex i) const {
    std::vector<OpIndex> common = readsOf(i);
    for (OpIndex form : forms_[i]) {
      const std::vector<OpIndex> reads = readsOf(form);
      std::vector<OpIndex> both;
      std::set_intersection(common.begin(), common.end(), reads.begin(), reads.end(),
                            std::back_inserter(both));
      common = std::move(both);
    }
    return common;
  }

  const Problem &p_;
  std::vector<std::vector<OpIndex>> forms_; // by op
  std::vector<char> isNeeded_ = std::vector<char>(p_.ops.size(), 0);
  std::vector<OpIndex> todo_;
};

} // namespace

std::optional<double> leastCostAtAll(const Problem &p) {
  if (canFetchFirst(p))
    return std::nullopt;
  return LeastCost(p).sum();
}

int64_t lowestPeakOfOriginals(const Problem &p) {
  constexpr double kWork = 3e6; // a tenth of a unit of effort
  Needs needs(p);
  int64_t known = structuralPeak(needs);
  if (p.order == Order::Fixed)
    known = std::max(known, fixedOrderPeak(needs));
  return leastPeak(needs, known, static_cast<uint64_t>(defaultEffort(needs.tasks.size()) * kWork));
}

bool hasOneSchedule(const Problem &p) {
  if (p.order != Order::Fixed || hasAlternatives(p))
    return false;
  std::vector<bool> isNeeded(p.ops.size());
  for (Read r : p.outputs)
    isNeeded[r.op] = true;
  for (OpIndex i = p.ops.size(); i-- > 0;) {
    const Op &op = p.ops[i];
    if (op.isPinned)
      continue;
    if (!isNeeded[i] || (op.recomputable && !op.isView()))
      return false;
    for (Read r : op.inputs)
      isNeeded[r.op] = true;
  }
  return true;
}

int64_t lowestPeak(const Problem &p) {
  if (hasOneSchedule(p))
    if (Evaluation judged = evaluate(p, sourceOrder(p)); judged.error.empty())
      return judged.peakBytes;
  return hasAlternatives(p) ? peakWithAlternatives(p, Needs(p)) : lowestPeakOfOriginals(p);
}

} // namespace isthmus::plan
