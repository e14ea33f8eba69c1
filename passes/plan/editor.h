// Edits of a schedule that a search tries, keeps or undoes. Those that succeed leave a valid
// schedule; one that gives false is to be undone.
#pragma once

#include "passes/plan/random.h"
#include "passes/plan/timeline.h"

#include <functional>

namespace isthmus::plan {

class Editor {
public:
  using RunId = Timeline::RunId;
  using CopyId = Timeline::CopyId;
  static constexpr uint32_t kNone = Timeline::kNone;

  // The source order, to begin with. `mayReorder`: first runs may change places.
  Editor(const StorageGraph &g, int64_t budget, uint64_t seed, bool mayReorder);
  void assign(const std::vector<uint32_t> &ops);

  const Timeline &timeline() const { return t_; }
  const StorageGraph &graph() const { return g_; }
  double cost() const { return t_.cost(); }
  int64_t budget() const { return budget_; }
  void setBudget(int64_t bytes);
  bool fits() const { return t_.peak() <= budget_; }
  // What is above the budget, summed over stretches of the schedule. (The peak alone would not tell
  // that one of two equal hills is gone.)
  int64_t excess() { return t_.excessOver(budget_); }
  uint64_t work() const { return t_.work; }
  void addWork(uint64_t steps) { t_.work += steps; }
  // Asked now and then by searches; false ends them. May be empty.
  std::function<bool()> goOn;
  bool isOver(uint64_t untilWork) {
    if (goOn && ++asked_ % 64 == 0 && !goOn())
      isStopped_ = true;
    return isStopped_ || work() >= untilWork;
  }

  // --- Trying
  size_t mark() const { return log_.size(); }
  void undo(size_t to = 0);
  void commit() { log_.clear(); }

  // Runs the op elsewhere; every read binds to the copy that it bound to. Gives the new run.
  RunId move(RunId r, RunId before);

  // --- Gaps: between a copy's making or a read of it, and its next read
  struct Gap {
    CopyId copy = kNone;
    uint32_t reader = 0; // the read that ends it
  };
  // How operands that are gone are had again.
  struct How {
    // How the dropped storage itself comes back: by one of its ways, or by whichever seems best.
    static constexpr uint32_t kAnyWay = ~0u;
    uint32_t way = kAnyWay;
    double costLimit = 1e300; // of the whole schedule
    bool isGreedy = true;     // the best guess each time, rather than a random choice
    bool extend = false;      // they live on, and all else that can be made of them is dropped too
  };
  bool isDroppable(const Gap &gap) const;
  // The one whose drop makes room at a run, for it covers it, or begins there and the run would
  // take the storage over; copy is kNone without.
  Gap gapAt(uint32_t storage, RunId run) const;
  int64_t highestIn(const Gap &gap) const; // the most live bytes at runs where its drop makes room
  Gap widestGap(CopyId c) const;
  // Makes the copy again just before the gap's end. False if that cannot be within the limits; what
  // was done by then is to be undone.
  bool drop(const Gap &gap, const How &how);
  // After a drop without `extend`: whether no operand had to be brought back for it.
  bool wasAlone() const { return log_.size() == dropMark_ + 1 && extended_.empty(); }
  // Ways to have a storage again: its own op, other forms of it, and copies back from the host,
  // each of which is two ways: waiting for nothing, or taking no more room than there is.
  uint32_t numWays(uint32_t storage) const;
  uint32_t someWay(uint32_t storage); // no choice is made where there is one

  // Storages large enough to matter, of ops that may run again.
  const std::vector<uint32_t> &candidates() const { return candidates_; }

  double makingCost(uint32_t storage) const { return g_.ops[g_.storages[storage].maker].cost; }

  // --- Random edits; false if there was nothing to do
  bool removeSome();                          // a repeated run, if there is room for what it saves
  bool ruin();                                // a few repeated runs that are near one another
  bool dropSome(double costLimit);            // a random gap
  bool shiftSome();                           // a run, by a few places; keeps the cost of runs
  bool exchangeSome();                        // a run, for one of another form of its op
  bool recreate(double costLimit, int tries); // drops gaps at the peak until the budget is met

  Random random;

private:
  struct Edit {
    bool inserted;
    uint32_t op;
    RunId run, before;
  };
  bool mayTakeOver(RunId r, uint32_t storage) const;
  RunId insert(uint32_t op, RunId before);
  void remove(RunId r);
  void sweepUnread();
  void noteRepeats(uint32_t op);
  struct Way {
    uint32_t op = kNone;
    bool isTight = false; // of a copy back
  };
  Way way(uint32_t storage, uint32_t k) const;
  Way choose(uint32_t storage, RunId before, const How &how);
  double guess(const Way &way, RunId before) const;
  bool comeBack(uint32_t storage, RunId before, const How &how, int depth);
  bool bringBack(uint32_t op, RunId before, const How &how, int depth);
  bool fetch(const Way &way, RunId before, const How &how);
  RunId copyOut(uint32_t op, RunId before, bool isTight);
  RunId lastUseBefore(uint32_t storage, RunId before) const;
  bool isTooEarly(uint32_t op, RunId before) const;
  bool isRemovable(RunId r) const;
  bool makeAgain(const Gap &gap, const How &how);
  void dropSiblings(const How &how, int64_t excessBefore, double costBefore);
  bool dropSibling(RunId user, uint32_t made, const How &how);
  void raiseReaders(RunId r);
  bool hasRoomWithout(RunId r) const;
  int64_t smallest() const; // that is worth a drop
  bool isSmall(uint32_t storage) const { return g_.storages[storage].bytes < leastBytes_; }
  // Of the op and its other forms: of which of its results there are most.
  uint32_t manyOf(uint32_t op) const; // a storage
  size_t runsOf(uint32_t op) const { return t_.copies(manyOf(op)).size(); }
  RunId someRepeat(uint32_t op);
  struct Range {
    uint32_t low, high; // positions
  };
  Range rangeOf(RunId r) const;

  Timeline t_;
  const StorageGraph &g_;
  int64_t budget_ = 0, leastBytes_ = 0;
  std::vector<int64_t> bytesAtPeak_; // of the source order, sorted
  bool mayReorder_;
  std::vector<Edit> log_;
  uint64_t asked_ = 0;
  bool isStopped_ = false;
  size_t dropMark_ = 0;
  std::vector<RunId> suspects_;                      // runs that may have become unread
  std::vector<uint32_t> extended_;                   // storages that the last drop let live on
  std::vector<uint32_t> repeated_, placeInRepeated_; // ops with two runs or more
  std::vector<uint32_t> candidates_;
};

} // namespace isthmus::plan
