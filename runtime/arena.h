// The arena's own bookkeeping: which bytes are in use now, and the most that ever were.
//
// It is told what is taken and given back while a graph runs, and knows nothing of plans or
// layouts, so the peak that it measures is evidence about them.
#pragma once

#include "ir/diagnostics.h"
#include <map>

namespace isthmus {

class Arena {
public:
  explicit Arena(int64_t bytes) : bytes_(bytes) {}

  // Errors: the range leaves the arena, or overlaps one in use. Both mean a wrong layout. Zero
  // bytes take nothing.
  llvm::Error take(int64_t offset, int64_t bytes);
  void giveBack(int64_t offset, int64_t bytes);
  void reset(); // everything is given back; the peak stays

  int64_t peakBytes() const { return peak_; }

private:
  int64_t bytes_;
  int64_t live_ = 0, peak_ = 0;
  std::map<int64_t, int64_t> inUse_; // start to end
};

} // namespace isthmus
