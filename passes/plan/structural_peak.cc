#include "passes/plan/peak_bound.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

constexpr uint32_t kNone = ~0u;
// Ops with the largest working sets, for which it is found out what else must be there.
constexpr size_t kMostLookedAt = 32;

// Where k may run only once, X depends on k, and an op Y that depends on X reads what k made, then
// that is there while X runs for the first time: k ran before, and Y runs after. The same holds
// along a chain of only readers, with nothing else to read and one result, from k to Y: one of the
// storages on it is there. (No storage is on the chains of two such k.)
class OneTime {
public:
  explicit OneTime(const Needs &n)
      : n_(n), firstReader_(n.storages.size() + 1), isOperand_(n.storages.size(), 0) {
    for (const Needs::Op &op : n.ops)
      for (uint32_t r : op.reads)
        ++firstReader_[r + 1];
    for (size_t s = 0; s < n.storages.size(); ++s)
      firstReader_[s + 1] += firstReader_[s];
    readers_.resize(firstReader_.back());
    std::vector<uint32_t> next(firstReader_.begin(), firstReader_.end() - 1);
    for (uint32_t i = 0; i < n.ops.size(); ++i)
      for (uint32_t r : n.ops[i].reads)
        readers_[next[r]++] = i;
    for (uint32_t i = 0; i < n.ops.size(); ++i)
      if (!n.ops[i].mayRepeat)
        once_.push_back(i);
  }

  bool isAny() const { return !once_.empty(); }

  // Bytes that are there beside the working set of `x` at its first run.
  int64_t kept(uint32_t x) {
    std::vector<char> before(n_.ops.size(), 0), after(n_.ops.size(), 0);
    before[x] = after[x] = 1;
    for (uint32_t i = x; i > 0; --i) // inputs come before
      if (before[i])
        for (uint32_t r : n_.ops[i].reads)
          before[n_.storages[r].maker] = 1;
    for (uint32_t i = x + 1; i < n_.ops.size(); ++i)
      for (uint32_t r : n_.ops[i].reads)
        after[i] |= after[n_.storages[r].maker];
    for (uint32_t r : n_.ops[x].reads)
      isOperand_[r] = 1;
    int64_t bytes = 0;
    for (uint32_t k : once_)
      if (k != x && before[k])
        bytes += keptOf(k, x, after);
    for (uint32_t r : n_.ops[x].reads)
      isOperand_[r] = 0;
    return bytes;
  }

private:
  // The least storage on the chain up to the first that is read after x. The operands of x are
  // there anyway, and x itself makes what follows from it.
  int64_t keptOf(uint32_t k, uint32_t x, const std::vector<char> &after) const {
    int64_t least = -1;
    for (uint32_t op = k; op != x && n_.ops[op].numMade == 1;) {
      uint32_t s = n_.ops[op].firstMade;
      if (isOperand_[s])
        return 0;
      least = least < 0 ? n_.storages[s].bytes : std::min(least, n_.storages[s].bytes);
      uint32_t begin = firstReader_[s], end = firstReader_[s + 1];
      for (uint32_t i = begin; i < end; ++i)
        if (after[readers_[i]] && readers_[i] != x)
          return least;
      if (end - begin != 1)
        return 0;
      op = readers_[begin];
      if (n_.ops[op].reads.size() != 1 || !n_.ops[op].mayRepeat) // then its own chain counts
        return 0;
    }
    return 0;
  }

  const Needs &n_;
  std::vector<uint32_t> firstReader_, readers_; // by storage
  std::vector<char> isOperand_;
  std::vector<uint32_t> once_;
};

} // namespace

int64_t workingSet(const Needs &n, const Needs::Op &op) {
  int64_t bytes = op.workspace, read = 0;
  for (uint32_t r : op.reads)
    read += n.storages[r].bytes;
  for (uint32_t m = op.firstMade; m < op.firstMade + op.numMade; ++m)
    if (std::none_of(op.donations.begin(), op.donations.end(),
                     [&](const Needs::Op::Donation &pair) { return pair.made == m; }))
      bytes += n.storages[m].bytes;
  return bytes + read;
}

int64_t structuralPeak(const Needs &n) {
  int64_t most = 0;
  for (const Needs::Storage &s : n.storages)
    most += s.lives ? s.bytes : 0;
  std::vector<std::pair<int64_t, uint32_t>> bySize;
  for (uint32_t i = 0; i < n.ops.size(); ++i)
    bySize.push_back({-workingSet(n, n.ops[i]), i});
  std::sort(bySize.begin(), bySize.end());
  bySize.resize(std::min(bySize.size(), kMostLookedAt));
  OneTime oneTime(n);
  for (auto [bytes, op] : bySize)
    most = std::max(most, -bytes + (oneTime.isAny() ? oneTime.kept(op) : 0));
  return most;
}

} // namespace isthmus::plan
