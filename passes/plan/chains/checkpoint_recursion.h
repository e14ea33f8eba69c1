// The cheapest recursion over checkpoints of a chain of links, within a number of bytes.
//
// A link is a part of a training step: tasks of the forward part, and the tasks of the backward
// part that follow them in reverse. A sweep over links runs their forward tasks and leaves the
// storages that cross the last link's end, a checkpoint. The recursion over links (begin, end]
// starts from the checkpoint at `begin`: it sweeps to a place within, holds the checkpoint there
// while the links beyond it are done in the same way, and then does the links before it. A link by
// itself runs its forward tasks once more and then its backward tasks; or the sweep over it has
// kept what they read. For equal links these are the binomial schedules of Griewank and Walther
// (Algorithm 799: Revolve, 2000); for others, the dynamic program of Beaumont et al. (Optimal
// Checkpointing for Heterogeneous Chains, 2019), here also with storages that cross several ends.
// Standard library only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace isthmus::plan {

// Costs are in microseconds, and all sizes in bytes. Peaks are beside the storages that cross the
// end before the link, if these are held, and beside everything that other links hold.
struct ChainLink {
  double sweepCost = 0;
  int64_t sweepPeak = 0;
  // The same where the storages that cross the end before the link are freed on the way. It counts
  // them, but is given less their bytes.
  int64_t passingPeak = 0;
  // A sweep that also makes the storages that the backward tasks read, and their bytes beside the
  // checkpoint.
  double keepingCost = 0;
  int64_t keepingPeak = 0, keptBytes = 0;
  int64_t keptBackwardPeak = 0; // of the backward tasks after such a sweep
  // Makes the storages that the backward tasks read, and runs those; their cost is not counted.
  double backwardCost = 0;
  int64_t backwardPeak = 0;
  int64_t gradientBytes = 0; // live from the end of the links after it until its backward tasks
  int64_t leftBytes = 0; // stay live after its backward tasks; negative if more becomes free there
  // The storages that the sweep makes and leaves: each crosses the link's end and the ends of the
  // next `reach` links.
  struct Crossing {
    int64_t bytes = 0;
    uint32_t reach = 0;
    friend bool operator==(const Crossing &a, const Crossing &b) = default;
  };
  std::vector<Crossing> made;
};

// A part of a chain's schedule.
struct ChainRun {
  enum class Kind : uint8_t { Sweep, KeepingSweep, Backward, KeptBackward };
  Kind kind;
  uint32_t link; // index
  friend bool operator==(const ChainRun &a, const ChainRun &b) = default;
};

class CheckpointRecursion {
public:
  // Sizes are rounded to some hundred parts of `mostBytes`, so the peak of a schedule may be a
  // little higher than promised. The links must outlive it. It gives up beforehand if it might take
  // more sums of costs than `mostWork`: for n links and m parts of the bytes, n^2 / 2 * m costs are
  // found, each as the least of at most min(n, 30 log n) sums, but stretches of links that recur
  // are solved once.
  CheckpointRecursion(const std::vector<ChainLink> &links, int64_t mostBytes, uint64_t mostWork);

  bool isComplete() const { return isComplete_; }
  // Whether some schedule stays within `mostBytes`, and the least bytes that suffice.
  bool isPossible() const { return least_ <= most_; }
  int64_t leastBytes() const;
  // The cheapest schedule within these bytes, which are at least `leastBytes`; empty if it has more
  // than `most` runs.
  std::vector<ChainRun> runs(int64_t bytes, size_t most);
  double cost(int64_t bytes); // of that schedule

private:
  static constexpr float kNever = 3e38f;
  struct Interval {
    uint32_t begin, end;
    bool isDone = false;
    std::vector<float> costs; // by parts of the bytes, at most `most_`
  };
  struct Split {
    uint32_t middle;
    bool isKeeping;
    double cost;
    int32_t need, inner, outer; // the parts needed, and those taken from both intervals
  };

  void choosePart(int64_t mostBytes);
  void findTypes();
  void findCrossings();
  int32_t parts(int64_t bytes) const;
  uint32_t partsWithin(int64_t bytes) const;
  int64_t heldBytes(uint32_t begin, uint32_t middle) const;
  class SweepPeaks;
  uint64_t mostSums();
  uint64_t hashOf(uint32_t begin, uint32_t end) const;
  const std::vector<uint32_t> &splitsOf(uint32_t length);
  uint32_t idOf(uint32_t begin, uint32_t end);
  void solve(uint32_t id);
  void fill(uint32_t id);
  template <typename Visit> void visitSplits(uint32_t begin, uint32_t end, Visit visit);
  float costAt(uint32_t id, int64_t parts) const;

  const std::vector<ChainLink> &links_;
  bool isComplete_ = false;
  double part_ = 1;                       // bytes
  uint32_t most_ = 0, least_ = ~0u;       // parts
  std::vector<double> sweepCosts_;        // sums, by end
  std::vector<int64_t> left_;             // likewise
  std::vector<uint32_t> types_;           // by link; alike if the recursion cannot tell them apart
  std::vector<uint64_t> hashes_, powers_; // of the types before each end
  // By end: the makers' indices and the bytes of all storages from there on that cross it, in
  // ascending order of the makers; and the last end that a storage crosses that is made before.
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> crossings_;
  std::vector<uint32_t> reach_;
  std::vector<std::vector<int64_t>>
      highest_; // of whole crossings with passing peaks, by powers of 2
  std::vector<std::vector<uint32_t>> splits_; // by length
  std::vector<Interval> intervals_;           // one for all that are alike
  std::unordered_map<uint64_t, uint32_t> ids_;
};

} // namespace isthmus::plan
