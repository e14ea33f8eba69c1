#include "runtime/thread_pool.h"

#include "ir/check.h"
#include "ir/system_limits.h"
#include "runtime/waiting.h"
#include <climits>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

namespace isthmus {
namespace {

void pauseThread() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// std::atomic::wait is not used, because it first yields the core, which a busy machine gives back
// only after a time slice.
long futex(std::atomic<uint32_t> *word, int operation, uint32_t value) {
  static_assert(sizeof *word == 4);
  return syscall(SYS_futex, word, operation, value, nullptr, nullptr, 0);
}

} // namespace

void Signal::waitWhile(uint32_t old, bool spins) {
  const Waiting::Clock::time_point start = Waiting::Clock::now();
  Waiting::Clock::time_point now = start;
  do {
    Waiting::awake(now);
    for (int i = 0; i < 16; ++i) {
      if (value() != old)
        return;
      pauseThread();
    }
    now = Waiting::Clock::now();
  } while (spins && now - start < Waiting::spinTime());
  ++sleepers_;
  while (value() == old)
    futex(&value_, FUTEX_WAIT_PRIVATE, old);
  --sleepers_;
  Waiting::slept(now, Waiting::Clock::now());
}

void Signal::wake() {
  if (sleepers_ > 0)
    futex(&value_, FUTEX_WAKE_PRIVATE, INT_MAX);
}

ThreadPool::ThreadPool() : owner_(getpid()), cores_(availableCores()) {}

ThreadPool::~ThreadPool() {
  body_ = nullptr;
  for (auto &w : workers_) {
    w->regions.add(1);
    w->regions.wake();
  }
  for (auto &w : workers_)
    w->thread.join();
}

bool ThreadPool::isOwn() const { return owner_ == getpid(); }

void ThreadPool::work(Worker &worker, int number) {
  bool spins = true;
  for (uint32_t region = 0;; ++region) {
    worker.regions.waitWhile(region, spins);
    if (!body_)
      return;
    spins = spins_;
    enter_({this, number, size_});
    body_(data_);
    if (unfinished_.subtractOne() == 0)
      unfinished_.wake();
  }
}

void ThreadPool::run(int size, void (*enter)(const Member &), Body body, void *data) {
  size_ = size;
  // On fewer cores than threads, a thread that spins keeps the others from running.
  spins_ = size <= cores_;
  enter_ = enter;
  body_ = body;
  data_ = data;
  const auto workers = size_t(size - 1);
  unfinished_.add(uint32_t(workers));
  missing_.add(uint32_t(size) - missing_.value());
  while (workers_.size() < workers) {
    Worker &w = *workers_.emplace_back(std::make_unique<Worker>());
    try {
      w.thread = std::thread(&ThreadPool::work, this, std::ref(w), int(workers_.size()));
    } catch (const std::system_error &) {
      ISTHMUS_CHECK(false, "the system starts no more threads; lower their number with --threads");
    }
  }
  for (size_t i = 0; i < workers; ++i) {
    workers_[i]->regions.add(1);
    workers_[i]->regions.wake();
  }
  enter({this, 0, size});
  body(data);
  for (uint32_t left; (left = unfinished_.value()) != 0;)
    unfinished_.waitWhile(left, spins_);
}

void ThreadPool::barrier() {
  const uint32_t barrier = barriers_.value();
  if (missing_.subtractOne() > 0) {
    barriers_.waitWhile(barrier, spins_);
    return;
  }
  missing_.add(uint32_t(size_));
  barriers_.add(1);
  barriers_.wake();
}

} // namespace isthmus
