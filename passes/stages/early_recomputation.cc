#include "passes/stages/early_recomputation.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace isthmus {
namespace {

class Moving {
public:
  Moving(const Graph &g, const GraphProblem &p, const PlaceProblem &place, plan::Schedule s)
      : g_(g), p_(p), place_(place), s_(std::move(s)) {
    std::vector<bool> hasRun(place.problem.ops.size(), false);
    for (plan::OpIndex op : s_) {
      isRepeat_.push_back(hasRun[op]);
      hasRun[op] = true;
    }
    isFromHere_.assign(place.problem.ops.size(), false);
  }

  plan::Schedule run(int64_t mostBytes) {
    // From the last wait to the first, so that steps pass several waits in a row.
    for (size_t wait = s_.size(); wait-- > 0;)
      if (isWait(s_[wait]))
        moveBefore(wait, mostBytes);
    // Likewise, so that waits behind a wait do not keep it.
    for (size_t wait = s_.size(); wait-- > 0;)
      if (isWaitForSend(s_[wait]))
        postpone(wait, mostBytes);
    return std::move(s_);
  }

private:
  const Node *nodeOf(plan::OpIndex op) const {
    const plan::OpIndex whole = place_.whole[op];
    return whole != PlaceProblem::kStarted && p_.isNode(whole) ? &g_.node(p_.nodeOf(whole))
                                                               : nullptr;
  }
  bool isWait(plan::OpIndex op) const {
    const Node *n = nodeOf(op);
    return n && n->op->is(kWait) && !isthmus::isWaitForSend(g_, *n);
  }
  bool isWaitForSend(plan::OpIndex op) const {
    const Node *n = nodeOf(op);
    return n && isthmus::isWaitForSend(g_, *n);
  }
  bool startsMessage(plan::OpIndex op) const {
    const Node *n = nodeOf(op);
    return n && n->op->isMessage();
  }

  // Steps behind the wait that may go before it, ascending.
  std::vector<size_t> movable(size_t wait) {
    std::vector<size_t> out;
    size_t end = wait;
    for (; end < s_.size() && !startsMessage(s_[end]); ++end) {
      const plan::Op &op = place_.problem.ops[s_[end]];
      const bool isFree =
          isRepeat_[end] && !op.isAlternative &&
          llvm::none_of(op.inputs, [&](const plan::Read &r) { return isFromHere_[r.op]; });
      if (isFree)
        out.push_back(end);
      else
        isFromHere_[s_[end]] = true;
    }
    for (size_t i = wait; i < end; ++i)
      isFromHere_[s_[i]] = false;
    return out;
  }

  void moveBefore(size_t wait, int64_t mostBytes) {
    const std::vector<size_t> steps = movable(wait);
    const auto first = [&](size_t n) { return llvm::makeArrayRef(steps).take_front(n); };
    size_t fits = 0, tooMany = steps.size() + 1;
    if (hasRoom(wait, first(steps.size()), mostBytes)) // mostly
      fits = steps.size();
    while (fits + 1 < tooMany && fits < steps.size()) {
      const size_t middle = fits + (tooMany - fits) / 2;
      (hasRoom(wait, first(middle), mostBytes) ? fits : tooMany) = middle;
    }
    s_ = moved(s_, wait, first(fits));
    isRepeat_ = moved(isRepeat_, wait, first(fits));
  }

  // The wait goes behind the steps that recompute after it, if nothing else but starts of messages
  // stands between: until then the message may be taken, and what was sent is live.
  void postpone(size_t wait, int64_t mostBytes) {
    size_t last = wait;
    for (size_t i = wait + 1; i < s_.size(); ++i)
      if (isRepeat_[i])
        last = i;
      else if (!startsMessage(s_[i]))
        break;
    if (last == wait)
      return;
    plan::Schedule later = s_;
    std::rotate(later.begin() + wait, later.begin() + wait + 1, later.begin() + last + 1);
    if (!isWithin(later, wait, last, mostBytes))
      return;
    s_ = std::move(later);
    std::rotate(isRepeat_.begin() + wait, isRepeat_.begin() + wait + 1,
                isRepeat_.begin() + last + 1);
  }

  // Whether enough room is left where more is live than before.
  bool hasRoom(size_t wait, llvm::ArrayRef<size_t> steps, int64_t mostBytes) const {
    return steps.empty() || isWithin(moved(s_, wait, steps), wait, steps.back(), mostBytes);
  }

  // Whether no more is live at the steps from `first` to `last`.
  bool isWithin(const plan::Schedule &s, size_t first, size_t last, int64_t mostBytes) const {
    if (mostBytes == INT64_MAX)
      return true;
    const std::vector<int64_t> live =
        plan::liveBytesOf(place_.problem, s, plan::instancesOf(place_.problem, s));
    return std::all_of(live.begin() + first, live.begin() + last + 1,
                       [&](int64_t bytes) { return bytes <= mostBytes; });
  }

  // With the items at `steps`, which ascend, put before the item at `to`.
  template <typename T>
  static std::vector<T> moved(const std::vector<T> &all, size_t to, llvm::ArrayRef<size_t> steps) {
    std::vector<T> out(all.begin(), all.begin() + to);
    out.reserve(all.size());
    for (size_t i : steps)
      out.push_back(all[i]);
    for (size_t i = to; i < all.size(); ++i)
      if (!steps.empty() && steps.front() == i)
        steps = steps.drop_front();
      else
        out.push_back(all[i]);
    return out;
  }

  const Graph &g_;
  const GraphProblem &p_;
  const PlaceProblem &place_;
  plan::Schedule s_;
  std::vector<char> isRepeat_;   // by step
  std::vector<bool> isFromHere_; // by op: made behind the wait at which movable() looks
};

} // namespace

plan::Schedule recomputedBeforeWaits(const Graph &g, const GraphProblem &p,
                                     const PlaceProblem &place, plan::Schedule s,
                                     int64_t mostBytes) {
  return Moving(g, p, place, std::move(s)).run(mostBytes);
}

} // namespace isthmus
