// The functions of OpenMP that compiled parallel regions and oneDNN call, on threads that sleep
// between regions.
//
// GCC's OpenMP library lets the threads of a team spin for milliseconds after each region, and
// reads the variables that change this when it is loaded, which is before any code of ours. Beside
// other programs, threads that spin keep those from running that have work to do: a step takes many
// times longer than on one thread.
//
// These definitions come before those of the OpenMP library in the order in which symbols are
// looked up, for our kernels and for oneDNN alike. They serve kernels only (`runsKernels`): every
// other call, such as one of a host program, goes on to the next library, and so does every call if
// the user has set variables of OpenMP that say how threads wait or where they run. In a process
// that had an OpenMP library for all to use before it loaded ours, calls do not come here at all.

#include "runtime/team.h"
#include "runtime/thread_pool.h"

#include <cstdlib>
#include <dlfcn.h>

namespace isthmus {
namespace {

// The next definition of a function in the order of look-up; null if there is none.
template <typename Function> Function *next(const char *name) {
  return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

struct NextLibrary {
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned) =
      next<void(void (*)(void *), void *, unsigned, unsigned)>("GOMP_parallel");
  void (*barrier)() = next<void()>("GOMP_barrier");
  void (*setNumThreads)(int) = next<void(int)>("omp_set_num_threads");
  int (*maxThreads)() = next<int()>("omp_get_max_threads");
  int (*numThreads)() = next<int()>("omp_get_num_threads");
  int (*threadNum)() = next<int()>("omp_get_thread_num");
  int (*inParallel)() = next<int()>("omp_in_parallel");
};

const NextLibrary &nextLibrary() {
  static const NextLibrary library;
  return library;
}

// Whether the user has said how OpenMP's threads wait or where they run.
bool userSetsThreads() {
  for (const char *name : {"OMP_WAIT_POLICY", "OMP_PROC_BIND", "OMP_PLACES", "OMP_DYNAMIC",
                           "OMP_THREAD_LIMIT", "OMP_STACKSIZE", "GOMP_SPINCOUNT",
                           "GOMP_CPU_AFFINITY", "GOMP_STACKSIZE"})
    if (std::getenv(name))
      return true;
  return false;
}

thread_local ThreadPool::Member self{nullptr, 0, 1};
thread_local int maxThreads = 1; // of the next region that this thread starts

// The calling thread's pool. It ends with the thread, except in a forked process, where nothing can
// be done with the pool of the parent.
ThreadPool &ownPool() {
  struct Owner {
    std::unique_ptr<ThreadPool> pool;
    void dropForked() {
      if (pool && !pool->isOwn())
        (void)pool.release();
    }
    ~Owner() { dropForked(); }
  };
  thread_local Owner owner;
  owner.dropForked();
  if (!owner.pool)
    owner.pool = std::make_unique<ThreadPool>();
  return *owner.pool;
}

// Whether a call of this thread is for our pool.
bool isOurs() {
  static const bool passesOn = userSetsThreads() && nextLibrary().parallel;
  return runsKernels && !passesOn;
}

void enter(const ThreadPool::Member &member) {
  self = member;
  runsKernels = true;
}

} // namespace
} // namespace isthmus

using namespace isthmus;

extern "C" {

void GOMP_parallel(void (*body)(void *), void *data, unsigned size, unsigned flags) {
  if (!isOurs() && nextLibrary().parallel)
    return nextLibrary().parallel(body, data, size, flags);
  const ThreadPool::Member before = self;
  const bool ranKernels = runsKernels;
  const int threads = size > 0 ? int(size) : maxThreads;
  // A region within a region has a team of one.
  if (threads == 1 || before.size > 1) {
    self = {nullptr, 0, 1};
    body(data);
  } else {
    ownPool().run(threads, enter, body, data);
  }
  self = before;
  runsKernels = ranKernels;
}

void GOMP_barrier() {
  if (!isOurs() && nextLibrary().barrier)
    return nextLibrary().barrier();
  if (self.pool)
    self.pool->barrier();
}

// The next library is told too: code that was bound to it before we were loaded asks there.
void omp_set_num_threads(int threads) {
  if (nextLibrary().setNumThreads)
    nextLibrary().setNumThreads(threads);
  if (isOurs())
    maxThreads = threads;
}

int omp_get_max_threads() {
  return isOurs() || !nextLibrary().maxThreads ? maxThreads : nextLibrary().maxThreads();
}
int omp_get_num_threads() {
  return isOurs() || !nextLibrary().numThreads ? self.size : nextLibrary().numThreads();
}
int omp_get_thread_num() {
  return isOurs() || !nextLibrary().threadNum ? self.number : nextLibrary().threadNum();
}
int omp_in_parallel() {
  return isOurs() || !nextLibrary().inParallel ? self.size > 1 : nextLibrary().inParallel();
}
}
