// A link between two memories of one machine: transfers run in parallel with the computing thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace isthmus {

// One direction of a link: a thread that copies in the order of the starts. With a rate, a copy
// takes as long as on a link of that rate, so that plans for slow links can be tried without one.
class LinkThread {
public:
  explicit LinkThread(double bytesPerSecond = 0); // 0: no limit
  ~LinkThread();                                  // completes all started transfers
  LinkThread(const LinkThread &) = delete;

  void start(uint32_t id, void *to, const void *from, int64_t bytes);
  // Returns at once if the transfer is complete or was never started.
  void waitFor(uint32_t id);

private:
  struct Job {
    uint32_t id;
    void *to;
    const void *from;
    int64_t bytes;
  };
  void run();
  bool isUnderWay(uint32_t id) const; // requires the lock

  const double bytesPerSecond_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_; // the first is being copied
  bool isEnding_ = false;
  std::thread thread_;
};

} // namespace isthmus
