// Tracks one allocation: the ranges in use, their owners, and the peak of the bytes in use.
//
// The executor takes and gives back ranges while a graph runs. Arena knows nothing of plans or
// layouts, so the peak that it measures is independent evidence about them.
#pragma once

#include "ir/diagnostics.h"
#include <map>

namespace isthmus {

class Arena {
public:
  // `name` is used in errors, such as "the arena". Ranges begin at multiples of `alignment` bytes.
  Arena(std::string name, int64_t bytes, int64_t alignment)
      : name_(std::move(name)), bytes_(bytes), alignment_(alignment) {}

  // The owner of a range, for errors: the value or node `name`, or `what` of it. `name` must
  // outlive the Arena.
  struct Owner {
    llvm::StringRef name;
    const char *what = ""; // "the workspace of "
  };
  // Errors: the range exceeds the allocation, is not aligned, or overlaps one in use. All mean a
  // wrong layout. A range of zero bytes is ignored.
  llvm::Error take(int64_t offset, int64_t bytes, Owner owner);
  void giveBack(int64_t offset, int64_t bytes);
  void reset(); // gives everything back; the peak stays

  int64_t liveBytes() const { return live_; }
  int64_t peakBytes() const { return peak_; }

private:
  struct Use {
    int64_t end;
    Owner owner;
  };
  std::map<int64_t, Use>::const_iterator overlapping(int64_t offset, int64_t bytes) const;

  std::string name_;
  int64_t bytes_, alignment_;
  int64_t live_ = 0, peak_ = 0;
  std::map<int64_t, Use> inUse_; // by start
};

} // namespace isthmus
