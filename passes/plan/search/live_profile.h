// The order of the steps of a schedule under edits, and the live bytes by step.
//
// Steps are stored in chunks of a few dozen, below a tree of maxima. Inserting a step, erasing a
// step and changing the live bytes of a range of steps each cost O(log n). They only mark the
// maxima that they change; the next question for a maximum brings these up to date, once for all
// the changes of a move.
#pragma once

#include "passes/plan/storages/ids.h"

namespace isthmus::plan {

// Counts elementary steps of a search, for limits that are the same on every machine.
struct WorkCount {
  uint64_t done = 0;
};

class LiveProfile {
public:
  using Position = uint32_t; // ordered like the steps; valid until the next change
  static constexpr Position kNowhere = ~0u;

  // `withDurations`: also keeps sums of the steps' durations, for `Clock`.
  LiveProfile(bool withDurations, WorkCount &work) : withDurations_(withDurations), work_(work) {}

  // Sets the steps, in order, each with its live bytes. `durations` may be empty without
  // `withDurations`.
  void assign(const std::vector<StepId> &order, const std::vector<int64_t> &live,
              const std::vector<double> &durations);
  // Places `step` just before `before`. Its live bytes are those of `before` plus `change`. `step`
  // is new or was erased.
  void insert(StepId step, StepId before, int64_t change, double duration);
  void erase(StepId step);

  // --- Order
  bool isPlaced(StepId r) const { return r.index < positions_.size() && positions_[r] != kNowhere; }
  Position position(StepId r) const { return positions_[r]; }
  StepId first() const;
  StepId next(StepId r) const;     // none at the last
  StepId previous(StepId r) const; // none at the first
  std::vector<StepId> steps() const;

  // --- Live bytes
  void add(StepId step, int64_t bytes);
  void addBetween(StepId after, StepId before, int64_t bytes); // both excluded
  void addAfter(StepId after, StepId through, int64_t bytes);  // `after` excluded
  int64_t liveAt(StepId r) const;
  int64_t peak() const { return tree()[1].max; }
  StepId peakStep() const; // the first at the peak
  // The most live bytes after `after` and before `before`; 0 if no step is between them.
  int64_t maxBetween(StepId after, StepId before) const;
  // Divides the schedule into some hundreds of stretches and sums by how much the highest step of
  // each exceeds the budget. (The peak alone would not show that one of two equal hills is gone.)
  int64_t excessOver(int64_t budget) const {
    refresh();
    return excessOver(budget, 1, 0);
  }

  // Sums durations from the first step on, position by position.
  class Clock {
  public:
    explicit Clock(const LiveProfile &p) : p_(p) {}
    // The sum over all steps before the position. Positions of successive calls must not decrease.
    double until(Position position);

  private:
    const LiveProfile &p_;
    double sum_ = 0;
    uint32_t chunk_ = 0;
    Position at_ = 0;
  };
  size_t numChunks() const { return numChunks_; }

private:
  static constexpr uint32_t kChunk = 32, kFill = 16;
  static constexpr uint32_t kMostStretches = 512; // a power of two, like the tree's levels

  // `add` counts for all steps below, and is part of `max`.
  struct Node {
    int64_t max, add;
  };

  void makeRoom(uint32_t chunk);
  void spread(const std::vector<StepId> &order, const std::vector<int64_t> &live);
  void addRange(Position from, Position to, int64_t bytes); // both included
  void markChunk(uint32_t chunk);
  const std::vector<Node> &tree() const {
    refresh();
    return tree_;
  }
  void refresh() const {
    if (isStale_[1])
      refresh(1);
  }
  void refresh(uint32_t node) const;
  void pull(uint32_t node) const;
  void pullChunk(uint32_t chunk) const;
  int64_t above(uint32_t chunk) const;
  int64_t excessOver(int64_t budget, uint32_t node, int64_t above) const;
  int64_t excessInChunk(uint32_t chunk, int64_t budget) const;

  const bool withDurations_;
  WorkCount &work_;
  IdVector<StepId, Position> positions_;
  IdVector<StepId, double> durations_;
  uint32_t numChunks_ = 0, leaves_ = 1;
  std::vector<StepId> at_;              // by position
  std::vector<int64_t> live_;           // by position, without the additions stored in the tree
  std::vector<uint32_t> size_;          // by chunk
  std::vector<double> durationOfChunk_; // by chunk, with durations
  mutable std::vector<Node> tree_;      // of maxima; node 1 is the root
  // By node: whether its maximum, and so those of all nodes above it, must be computed again.
  mutable std::vector<char> isStale_;
  std::vector<StepId> scratchOrder_;
  std::vector<int64_t> scratchLive_;
};

} // namespace isthmus::plan
