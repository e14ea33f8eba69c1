// The number of threads of an OpenMP parallel region.
#pragma once

#include <omp.h>

namespace isthmus {

// Whether parallel regions that this thread starts are those of our kernels and of libraries that
// they call. runtime/openmp.cc runs these regions; it leaves the regions of a host program alone.
inline thread_local bool runsKernels = false;

// Sets the number of threads for parallel regions that the calling thread starts in this scope,
// ours and those of libraries that use OpenMP, and restores it at the end. Other threads, such as
// those of a host program, keep their number.
class TeamSize {
public:
  explicit TeamSize(int threads) : before_(omp_get_max_threads()), ranKernels_(runsKernels) {
    runsKernels = true;
    omp_set_num_threads(threads);
  }
  ~TeamSize() {
    omp_set_num_threads(before_);
    runsKernels = ranKernels_;
  }
  TeamSize(const TeamSize &) = delete;
  TeamSize &operator=(const TeamSize &) = delete;

private:
  int before_;
  bool ranKernels_;
};

} // namespace isthmus
