// How many threads a parallel loop of OpenMP has.
#pragma once

#include <omp.h>

namespace isthmus {

// Sets it for parallel regions that the calling thread begins in this scope, ours and those of
// libraries that run on OpenMP; what it was before holds again afterwards. Other threads, such as
// those of a program that we are part of, keep theirs.
class TeamSize {
public:
  explicit TeamSize(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~TeamSize() { omp_set_num_threads(before_); }
  TeamSize(const TeamSize &) = delete;
  TeamSize &operator=(const TeamSize &) = delete;

private:
  int before_;
};

} // namespace isthmus
