// The books of one allocation: which of its bytes are in use now, by whom, and the most that ever
// were.
//
// They are told what is taken and given back while a graph runs, and know nothing of plans or
// layouts, so the peak that they measure is evidence about them.
#pragma once

#include "ir/diagnostics.h"
#include <map>

namespace isthmus {

class Arena {
public:
  // `name`: in errors, such as "the arena".
  Arena(std::string name, int64_t bytes) : name_(std::move(name)), bytes_(bytes) {}

  // Who takes a range, for errors: the value or node `name`, or `what` of it. Names outlive the
  // books.
  struct Owner {
    llvm::StringRef name;
    const char *what = ""; // "the workspace of "
  };
  // Errors: the range leaves the allocation, or overlaps one in use. Both mean a wrong layout. Zero
  // bytes take nothing.
  llvm::Error take(int64_t offset, int64_t bytes, Owner owner);
  void giveBack(int64_t offset, int64_t bytes);
  void reset(); // everything is given back; the peak stays

  int64_t liveBytes() const { return live_; }
  int64_t peakBytes() const { return peak_; }

private:
  struct Use {
    int64_t end;
    Owner owner;
  };
  std::map<int64_t, Use>::const_iterator overlapping(int64_t offset, int64_t bytes) const;

  std::string name_;
  int64_t bytes_;
  int64_t live_ = 0, peak_ = 0;
  std::map<int64_t, Use> inUse_; // by start
};

} // namespace isthmus
