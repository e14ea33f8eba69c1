// The number of threads of an OpenMP parallel region.
#pragma once

#include <omp.h>

namespace isthmus {

// Sets the number of threads for parallel regions that the calling thread starts in this scope,
// ours and those of libraries that use OpenMP, and restores it at the end. Other threads, such as
// those of a host program, keep their number.
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
