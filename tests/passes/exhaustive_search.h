// The exact optimum of a small problem, by a search of all schedules. It uses only the rules for
// schedules, and no code of the planner.
#pragma once

#include "passes/plan/problem.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>

namespace isthmus::plan {

// Dijkstra's search. A state says which instance (`copy`) each value refers to and, where it
// matters, which ops have run and how much longer the links (`bus`) are busy. An instance ends at
// one of its reads or where it is made, whichever is best. Dead ops do not run. Alternatives may
// run again, they are of ops that are no forward outputs, and an offload has one operand. Times are
// small whole numbers. Problems have about a dozen ops, and at most 64.
class ExhaustiveSearch {
public:
  // If `order` is given, the first runs of ops other than views are in that order, whatever
  // Problem::order is.
  explicit ExhaustiveSearch(const Problem &p, const std::vector<OpIndex> *order = nullptr)
      : p_(p), order_(order), needed_(p.ops.size(), false) {
    for (const Op &op : p.ops) {
      firstSlot_.push_back(slotBytes_.size());
      for (size_t o = 0; o < std::max<size_t>(1, op.outputBytes.size()); ++o)
        slotBytes_.push_back(op.outputBytes.empty() ? 0 : p.rounded(op.outputBytes[o]));
    }
    if (p.order == Order::Phases) {
      for (OpIndex i : p.forwardOutputs)
        addForwardOutput(i);
      for (const Read &r : p.outputs)
        if (p.ops[r.op].phase == OpPhase::Forward)
          addForwardOutput(r.op);
    }
    for (const Read &r : p.outputs)
      need(r.op);
    for (OpIndex i = 0; i < p.ops.size(); ++i)
      if (p.ops[i].of != Op::kNone && needed_[p.ops[i].of])
        need(i);
  }

  int64_t leastPeak() {
    isTimed_ = false;
    return static_cast<int64_t>(search(
        INT64_MAX, [](double so, int64_t peak, double) { return std::max(so, double(peak)); }));
  }

  // Returns infinity if no schedule is within the budget.
  double leastCost(int64_t budget) {
    isTimed_ = true;
    return search(budget, [](double so, int64_t, double cost) { return so + cost; });
  }

  // The best schedule of the last search; empty if there is none.
  const Schedule &schedule() const { return schedule_; }

private:
  static constexpr char kNever = -1, kPersistent = -2;

  struct State {
    std::string copy;  // by slot: its instance, numbered by first occurrence; kNever: none
    std::string maker; // by instance: the slot that it was made for
    uint64_t ran = 0;  // by op, where it matters
    // Microseconds from the present on: until the link to the host and the link back are free, and
    // then, by op, until the transfer that it started is complete.
    std::string ahead;

    std::string key() const {
      return copy + maker + ahead + std::string(reinterpret_cast<const char *>(&ran), sizeof ran);
    }
  };

  void addForwardOutput(OpIndex i) {
    if (p_.ops[i].isPinned)
      return;
    forwardOutputs_ |= bit(i);
    need(i);
  }

  void need(OpIndex i) {
    if (needed_[i] || p_.ops[i].isPinned)
      return;
    needed_[i] = true;
    for (const Read &r : p_.ops[i].inputs)
      need(r.op);
  }

  static uint64_t bit(OpIndex i) { return uint64_t(1) << i; }
  size_t slot(const Read &r) const { return firstSlot_[r.op] + r.output; }

  State start() const {
    State s;
    s.copy.assign(slotBytes_.size(), kNever);
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].isPinned)
        s.copy[firstSlot_[i]] = kPersistent;
    s.ahead.assign(2 + p_.ops.size(), 0);
    return s;
  }

  // Advances the clock of the computing steps.
  void pass(State &s, double us) const {
    for (char &ahead : s.ahead)
      ahead = char(std::max(0, ahead - int(us)));
  }

  bool isUnderWay(const State &s, OpIndex start) const {
    return s.copy[firstSlot_[start]] != kNever;
  }

  // Forward outputs are required even if no backward op runs.
  bool isEnd(const State &s) const {
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].startsTransfer() && isUnderWay(s, i))
        return false;
    return (s.ran & forwardOutputs_) == forwardOutputs_ &&
           std::all_of(p_.outputs.begin(), p_.outputs.end(),
                       [&](const Read &r) { return s.copy[slot(r)] != kNever; });
  }

  // Removes instances that no slot refers to, and renumbers the others.
  static State tidied(State t) {
    std::string maker, to(t.maker.size(), kNever);
    for (char &c : t.copy)
      if (c >= 0) {
        if (to[c] == kNever) {
          to[c] = char(maker.size());
          maker += t.maker[c];
        }
        c = to[c];
      }
    t.maker = std::move(maker);
    return t;
  }

  int64_t live(const State &s) const {
    int64_t sum = 0;
    for (char m : s.maker)
      sum += slotBytes_[m];
    return sum;
  }

  // Whether the order allows `i` to run now.
  bool isItsTurn(const State &s, OpIndex i) const {
    const Op &op = p_.ops[i];
    if (op.isAlternative)
      return p_.order != Order::Phases || op.phase == OpPhase::Forward ||
             (s.ran & forwardOutputs_) == forwardOutputs_;
    if (s.ran & bit(i))
      return op.recomputable;
    if (order_) {
      if (op.isView())
        return true;
      for (OpIndex next : *order_)
        if (!(s.ran & bit(next)))
          return next == i;
      return false;
    }
    if (p_.order == Order::Fixed)
      return s.ran >> i == 0;
    return op.phase == OpPhase::Forward || (s.ran & forwardOutputs_) == forwardOutputs_;
  }

  bool isRanKept(OpIndex i) const {
    const Op &op = p_.ops[i];
    if (op.isAlternative)
      return false;
    return !op.recomputable || (order_ ? !op.isView() : p_.order == Order::Fixed) ||
           (forwardOutputs_ & bit(i));
  }

  // The start or the wait of a transfer: fn(next state, peak, cost).
  template <typename Fn> void runCopy(const State &s, OpIndex i, Fn fn) const {
    const Op &op = p_.ops[i];
    const char read = s.copy[slot(op.inputs[0])];
    if (read == kNever || (op.startsTransfer() && isUnderWay(s, i)))
      return;
    State t = s;
    if (op.startsTransfer()) {
      const bool isOut = op.transfer == Op::Transfer::StartOffload;
      t.copy[firstSlot_[i]] = isOut ? read : char(s.maker.size());
      if (!isOut)
        t.maker += char(firstSlot_[i]);
      char &bus = t.ahead[isOut ? 0 : 1];
      if (isTimed_)
        t.ahead[2 + i] = bus = char(bus + int(op.transferTime));
      const int64_t peak = live(t);
      return fn(tidied(std::move(t)), peak, 0);
    }
    const double late = s.ahead[2 + op.inputs[0].op];
    pass(t, late);
    t.copy[slot(op.inputs[0])] = kNever;
    t.copy[op.of == Op::kNone ? firstSlot_[i]
                              : slot({op.of, op.ofOutput == Op::kAllOutputs ? 0 : op.ofOutput})] =
        op.of == Op::kNone ? kPersistent : read;
    const int64_t peak = live(t);
    State dead = t;
    std::replace(dead.copy.begin(), dead.copy.end(), read, kNever);
    if (read != kPersistent && !isHeld(t, read))
      fn(tidied(std::move(dead)), peak, late);
    fn(tidied(std::move(t)), peak, late);
  }

  // Whether a transfer that is under way reads or writes `copy`.
  bool isHeld(const State &s, char copy) const {
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].startsTransfer() && s.copy[firstSlot_[i]] == copy)
        return true;
    return false;
  }

  // All ways to run `i` in state `s`: fn(next state, peak, cost).
  template <typename Fn> void run(const State &s, OpIndex i, Fn fn) const {
    const Op &op = p_.ops[i];
    if (!needed_[i] || !isItsTurn(s, i))
      return;
    if (op.transfer != Op::Transfer::None)
      return runCopy(s, i, fn);
    std::string read;
    for (const Read &r : op.inputs) {
      read += s.copy[slot(r)];
      if (read.back() == kNever)
        return;
    }
    State t = s;
    if (isRanKept(i))
      t.ran |= bit(i);
    std::set<char> mortal(read.begin(), read.end());
    mortal.erase(kPersistent);
    char firstNew = char(s.maker.size());
    if (op.isView())
      t.copy[firstSlot_[i]] = read[op.viewOf];
    else
      for (size_t o = 0; o < op.outputBytes.size(); ++o) {
        char made = char(firstNew + o);
        if (op.of == Op::kNone)
          t.copy[firstSlot_[i] + o] = made;
        else
          t.copy[slot({op.of, op.ofOutput == Op::kAllOutputs ? uint32_t(o) : op.ofOutput})] = made;
        t.maker += char(firstSlot_[i] + o);
        mortal.insert(made);
      }
    pass(t, op.cost);
    for (OpIndex k = 0; k < p_.ops.size(); ++k)
      if (p_.ops[k].startsTransfer() && isUnderWay(t, k))
        mortal.erase(t.copy[firstSlot_[k]]);
    const int64_t most = live(t) + p_.rounded(op.workspace);
    std::vector<char> all(mortal.begin(), mortal.end());
    for (unsigned dying = 0; dying < 1u << all.size(); ++dying) {
      State u = t;
      std::set<char> dies;
      for (size_t k = 0; k < all.size(); ++k)
        if (dying >> k & 1) {
          std::replace(u.copy.begin(), u.copy.end(), all[k], kNever);
          dies.insert(all[k]);
        }
      int64_t shared = 0;
      std::set<uint32_t> placed;
      for (const Op::Donation &r : op.donations) {
        char from = read[r.input];
        int64_t need = slotBytes_[firstSlot_[i] + r.output];
        if (from < 0 || !dies.count(from) || placed.count(r.output) ||
            slotBytes_[s.maker[from]] < need)
          continue;
        dies.erase(from);
        placed.insert(r.output);
        shared += need;
      }
      fn(tidied(std::move(u)), most - shared, op.cost);
    }
  }

  template <typename Combine> double search(int64_t budget, Combine combine) {
    struct Reached {
      double value;
      State state;
      const Reached *from;
      OpIndex by;
    };
    std::unordered_map<std::string, Reached> best;
    using Entry = std::pair<double, const Reached *>;
    auto later = [](const Entry &a, const Entry &b) { return a.first > b.first; };
    std::priority_queue<Entry, std::vector<Entry>, decltype(later)> open(later);
    auto offer = [&](State s, double value, const Reached *from, OpIndex by) {
      auto [it, isNew] = best.try_emplace(s.key());
      Reached &r = it->second;
      if (!isNew && r.value <= value)
        return;
      r = {value, std::move(s), from, by};
      open.push({value, &r});
    };
    schedule_.clear();
    offer(start(), 0, nullptr, 0);
    double found = std::numeric_limits<double>::infinity();
    while (!open.empty() && found == std::numeric_limits<double>::infinity()) {
      auto [value, at] = open.top();
      open.pop();
      if (value > at->value)
        continue;
      if (isEnd(at->state)) {
        found = value;
        for (; at->from; at = at->from)
          schedule_.push_back(at->by);
        std::reverse(schedule_.begin(), schedule_.end());
        continue;
      }
      for (OpIndex i = 0; i < p_.ops.size(); ++i)
        run(at->state, i, [&](State t, int64_t peak, double cost) {
          if (peak <= budget)
            offer(std::move(t), combine(value, peak, cost), at, i);
        });
    }
    return found;
  }

  const Problem &p_;
  const std::vector<OpIndex> *order_;
  std::vector<size_t> firstSlot_;  // by op
  std::vector<int64_t> slotBytes_; // rounded
  std::vector<bool> needed_;
  uint64_t forwardOutputs_ = 0; // if the order is by phases
  bool isTimed_ = false;
  Schedule schedule_;
};

} // namespace isthmus::plan
