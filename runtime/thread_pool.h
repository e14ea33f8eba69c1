// The threads that run the parallel regions of one calling thread. Between regions they spin,
// because the next region often begins at once, and sleep after a time that depends on how busy the
// machine is (wait_policy.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace isthmus {

// A count that other threads wait on.
class Signal {
public:
  uint32_t value() const { return value_.load(std::memory_order_acquire); }
  void add(uint32_t n) { value_.fetch_add(n); }
  // Subtracts one, and returns the new value.
  uint32_t subtractOne() { return value_.fetch_sub(1) - 1; }
  void wake(); // all threads that sleep in waitWhile
  // Returns once the value is not `old`. If `spins`, the thread spins for Waiting::spinTime()
  // before it sleeps.
  void waitWhile(uint32_t old, bool spins);

private:
  alignas(64) std::atomic<uint32_t> value_{0};
  std::atomic<uint32_t> sleepers_{0};
};

class ThreadPool {
public:
  // A thread's place in its team.
  struct Member {
    ThreadPool *pool; // null in a team of one
    int number, size;
  };
  using Body = void (*)(void *data);

  ThreadPool();
  ~ThreadPool(); // ends the threads
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  // Runs enter(member) and body(data) on `size` threads, the caller among them, and returns when
  // all are done. Called by one thread at a time, and not from within a body.
  void run(int size, void (*enter)(const Member &), Body body, void *data);

  // Returns when all members of the team have called this.
  void barrier();

  // Whether the threads exist: not in a process that was forked from theirs.
  bool isOwn() const;

private:
  struct Worker {
    Signal regions; // counts the regions that the thread takes part in
    std::thread thread;
  };
  void work(Worker &worker, int number);

  const pid_t owner_;
  const int cores_;
  std::vector<std::unique_ptr<Worker>> workers_; // member i + 1 of a team runs on workers_[i]

  // The region. The caller writes it before it signals the workers that take part.
  int size_ = 1;
  bool spins_ = false;
  void (*enter_)(const Member &) = nullptr;
  Body body_ = nullptr; // null: the thread ends
  void *data_ = nullptr;

  Signal unfinished_; // workers that are in the region
  Signal missing_;    // members that have not reached the barrier
  Signal barriers_;   // counts barriers
};

} // namespace isthmus
