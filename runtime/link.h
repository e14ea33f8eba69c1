// A link between two memories of one machine: transfers beside the thread that computes.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace isthmus {

// One direction: a thread that copies, in the order of the starts. With a rate it takes as long as
// a link of that rate would, so that plans for slow links can be tried where there is none.
class LinkThread {
public:
  explicit LinkThread(double bytesPerSecond = 0); // 0: as fast as it can
  ~LinkThread();                                  // after all that was started
  LinkThread(const LinkThread &) = delete;

  void start(uint32_t id, void *to, const void *from, int64_t bytes);
  // Returns at once for what is complete, or was never started.
  void waitFor(uint32_t id);

private:
  struct Job {
    uint32_t id;
    void *to;
    const void *from;
    int64_t bytes;
  };
  void run();
  bool isUnderWay(uint32_t id) const; // with the lock held

  const double bytesPerSecond_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_; // the first is being copied
  bool isEnding_ = false;
  std::thread thread_;
};

} // namespace isthmus
