// The state of the exact search for offsets: which buffers are placed, and what is left to the
// others. Private to passes/place.
#pragma once

#include "passes/place/offset_search.h"

namespace isthmus {

// A section is a maximal set of buffers that are live together; sections are in the order of time,
// and a buffer's life is a range of them. All that is asked of a step is asked of its section.
//
// Every buffer that is not placed has a lowest offset, above all placed buffers that it meets. A
// section's base is the least of its buffers' lowest offsets. All changes can be undone.
class Sections {
public:
  explicit Sections(OffsetAssignment &p);

  // Takes all buffers out and sets the height within which they are to be placed. False if some
  // section's buffers do not fit.
  bool clear(int64_t height);

  // Buffers, by their index in OffsetAssignment.
  const std::vector<uint32_t> &buffers() const { return all_; } // by first section
  int64_t bytes(uint32_t i) const { return p_.buffers[i].bytes; }
  uint32_t begin(uint32_t i) const { return begin_[i]; }
  uint32_t end(uint32_t i) const { return end_[i]; }
  uint32_t kind(uint32_t i) const { return kind_[i]; } // buffers of one kind are interchangeable
  const std::vector<int64_t> &offsets() const { return offsets_; }

  // Sections that still have buffers to be placed.
  int64_t base(uint32_t s) const { return base_[s]; }
  int64_t slack(uint32_t s) const { return height_ - base_[s] - coming_[s]; }
  double failures(uint32_t s) const { return failures_[s]; } // how often its buffers did not fit
  // The buffers that may lie at the base, and how many there are.
  std::vector<uint32_t> candidates(uint32_t s) const;
  uint32_t numCandidates(uint32_t s) const { return numCandidates_[s]; }

  // Both are false if the buffers of some section no longer fit. `part` has all buffers that are
  // not placed and meet the section's or the buffer's.
  bool place(uint32_t i, const std::vector<uint32_t> &part); // at its lowest offset
  bool leaveGap(uint32_t s, const std::vector<uint32_t> &part);

  size_t mark() const { return changes_.size(); }
  void undo(size_t mark);

private:
  enum class What : uint8_t { Placed, Lowest, Support, Base };
  struct Change {
    uint32_t which; // buffer or section
    What what;
    uint32_t numCandidates; // of a section
    int64_t before;
  };

  void findSections();
  void findKinds();
  void come(uint32_t i, int64_t bytes);
  bool meet(uint32_t i, uint32_t j) const { return begin_[i] < end_[j] && begin_[j] < end_[i]; }
  bool mayLieLowest(uint32_t i, uint32_t s) const {
    return !isPlaced_[i] && lowest_[i] == base_[s] && support_[i] == lowest_[i];
  }
  int64_t aboveGap(uint32_t s, const std::vector<uint32_t> &part) const;
  void raise(uint32_t i, int64_t lowest);
  void touch(uint32_t i);
  bool update();
  bool update(uint32_t s);

  OffsetAssignment &p_;
  int64_t height_ = 0;
  std::vector<uint32_t> all_;
  std::vector<std::vector<uint32_t>> sections_;
  // By buffer.
  std::vector<uint32_t> begin_, end_, kind_;
  std::vector<uint8_t> isPlaced_;
  std::vector<int64_t> offsets_, lowest_;
  std::vector<int64_t> support_; // the highest end of placed buffers that it meets; 0: the floor
  // By section.
  std::vector<int64_t> coming_; // bytes still to be placed
  std::vector<int64_t> base_;
  std::vector<uint32_t> numCandidates_;
  std::vector<double> failures_;
  std::vector<uint8_t> isTouched_; // base and candidates are out of date
  uint32_t firstTouched_ = 0, endTouched_ = 0;
  std::vector<Change> changes_;
};

} // namespace isthmus
