#include "runtime/workers.h"

namespace isthmus {

WorkerThreads::WorkerThreads(size_t count) {
  for (size_t i = 0; i < count; ++i)
    threads_.emplace_back([this, i] { loop(i); });
}

WorkerThreads::~WorkerThreads() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    isEnding_ = true;
  }
  changed_.notify_all();
  for (std::thread &t : threads_)
    t.join();
}

void WorkerThreads::run(const std::function<void(size_t)> &work) {
  std::unique_lock<std::mutex> lock(mutex_);
  work_ = &work;
  left_ = threads_.size();
  ++round_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return left_ == 0; });
  work_ = nullptr;
}

void WorkerThreads::loop(size_t number) {
  uint64_t done = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return isEnding_ || round_ > done; });
    if (isEnding_)
      return;
    done = round_;
    const std::function<void(size_t)> &work = *work_;
    lock.unlock();
    work(number);
    lock.lock();
    if (--left_ == 0)
      changed_.notify_all();
  }
}

} // namespace isthmus
