// One thread for each device of a step, for as long as the session lives: a thread keeps the pool
// of the kernels that it runs (thread_pool.h).
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace isthmus {

class WorkerThreads {
public:
  explicit WorkerThreads(size_t count);
  ~WorkerThreads();
  WorkerThreads(const WorkerThreads &) = delete;

  // Calls work(i) on thread i, for all of them, and returns when all are done.
  void run(const std::function<void(size_t)> &work);

private:
  void loop(size_t number);

  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(size_t)> *work_ = nullptr;
  uint64_t round_ = 0;
  size_t left_ = 0;
  bool isEnding_ = false;
  std::vector<std::thread> threads_;
};

} // namespace isthmus
