#include "runtime/link.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace isthmus {

LinkThread::LinkThread(double bytesPerSecond)
    : bytesPerSecond_(bytesPerSecond), thread_([this] { run(); }) {}

LinkThread::~LinkThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void LinkThread::start(uint32_t id, void *to, const void *from, int64_t bytes) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    jobs_.push_back({id, to, from, bytes});
  }
  changed_.notify_all();
}

bool LinkThread::isUnderWay(uint32_t id) const {
  return std::any_of(jobs_.begin(), jobs_.end(), [&](const Job &j) { return j.id == id; });
}

void LinkThread::waitFor(uint32_t id) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return !isUnderWay(id); });
}

void LinkThread::run() {
  using Clock = std::chrono::steady_clock;
  Clock::time_point free = Clock::now(); // time at which the link has completed all earlier copies
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return isEnding_ || !jobs_.empty(); });
    if (jobs_.empty())
      return;
    const Job job = jobs_.front();
    lock.unlock();
    free = std::max(free, Clock::now());
    std::memcpy(job.to, job.from, size_t(job.bytes));
    if (bytesPerSecond_ > 0) {
      free += std::chrono::duration_cast<Clock::duration>(
          std::chrono::duration<double>(double(job.bytes) / bytesPerSecond_));
      std::this_thread::sleep_until(free);
    }
    lock.lock();
    jobs_.pop_front();
    changed_.notify_all();
  }
}

} // namespace isthmus
