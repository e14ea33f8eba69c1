// A fiber starts by makecontext. swapcontext makes system calls, which are slow, so fibers switch
// by longjmp. Its check that stacks only unwind must be off.
#undef _FORTIFY_SOURCE

#include "kernels/cuda/threads.h"

#include "ir/check.h"
#include <algorithm>
#include <csetjmp>
#include <memory>
#include <numeric>
#include <random>
#include <ucontext.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace isthmus::cuda {

thread_local EmulatedThread thisThread;

namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kWarp = 32;

thread_local uint64_t orderOfThreads = 0;

enum class State : uint8_t { Ready, AtWarp, AtBlock, Done };

struct Stack {
  std::unique_ptr<char[]> memory; // a fiber's
  const void *bottom = nullptr;
  size_t bytes = 0;
  void *asanFrames = nullptr; // local variables, which AddressSanitizer keeps outside the stack
};

// AddressSanitizer must know which stack is current: it takes the frames of any other stack for
// dead.
#ifdef __SANITIZE_ADDRESS__
void beforeSwitch(Stack &from, const Stack &to) {
  __sanitizer_start_switch_fiber(&from.asanFrames, to.bottom, to.bytes);
}
void afterSwitch(Stack &from, const Stack &to) {
  __sanitizer_finish_switch_fiber(to.asanFrames, &from.bottom, &from.bytes);
}
#else
void beforeSwitch(Stack &, const Stack &) {}
void afterSwitch(Stack &, const Stack &) {}
#endif

struct Fiber {
  ucontext_t start;
  jmp_buf here; // where it is suspended
  bool isStarted;
  EmulatedThread thread;
  State state;
  uint32_t word; // passed to the rest of the warp
};

// Runs one block of threads at a time.
class Emulator {
public:
  void run(const EmulatedThread &first, const std::function<void()> &thread) {
    body_ = &thread;
    fibers_.resize(size_t(first.lanes) * first.teams);
    stacks_.resize(std::max(stacks_.size(), fibers_.size()));
    for (size_t i = 0; i < fibers_.size(); ++i)
      start(i, first);
    while (runReady())
      release();
    for (const Fiber &f : fibers_)
      ISTHMUS_CHECK(f.state == State::Done, "threads wait for others, which have ended");
  }

  void runAlone(const EmulatedThread &first, const std::function<void()> &thread) {
    for (size_t i : order(size_t(first.lanes) * first.teams)) {
      thisThread = threadOf(i, first);
      thread();
    }
  }

  std::vector<size_t> order(size_t count) {
    std::vector<size_t> all(count);
    std::iota(all.begin(), all.end(), 0);
    if (orderOfThreads == 1)
      std::reverse(all.begin(), all.end());
    else if (orderOfThreads > 1)
      std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  Fiber &now() { return fibers_[now_]; }
  const Fiber &inWarp(unsigned lane) const { return fibers_[now_ / kWarp * kWarp + lane]; }

  void wait(State at) {
    now().state = at;
    if (_setjmp(now().here) == 0) {
      beforeSwitch(stacks_[now_], schedulerStack_);
      _longjmp(scheduler_, 1);
    }
    afterSwitch(schedulerStack_, stacks_[now_]);
  }

private:
  void start(size_t i, const EmulatedThread &first) {
    Fiber &f = fibers_[i];
    f.thread = threadOf(i, first);
    f.state = State::Ready;
    f.isStarted = false;
    Stack &stack = stacks_[i];
    if (!stack.memory) {
      stack.memory = std::make_unique<char[]>(kStackBytes);
      stack.bottom = stack.memory.get();
      stack.bytes = kStackBytes;
    }
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = stack.memory.get();
    f.start.uc_stack.ss_size = stack.bytes;
    f.start.uc_link = nullptr;
    makecontext(&f.start, &Emulator::enter, 0);
  }
  static EmulatedThread threadOf(size_t i, EmulatedThread first) {
    first.lane = unsigned(i % first.lanes);
    first.team = unsigned(i / first.lanes);
    return first;
  }
  static void enter();

  // Resumes every ready fiber once. Returns whether any was ready.
  bool runReady() {
    bool any = false;
    for (size_t i : order(fibers_.size()))
      if (fibers_[i].state == State::Ready) {
        any = true;
        now_ = i;
        thisThread = fibers_[i].thread;
        resume(fibers_[i]);
      }
    return any;
  }

  void resume(Fiber &f) {
    if (_setjmp(scheduler_) != 0) {
      afterSwitch(stacks_[now_], schedulerStack_);
      return;
    }
    beforeSwitch(schedulerStack_, stacks_[now_]);
    if (f.isStarted)
      _longjmp(f.here, 1);
    f.isStarted = true;
    setcontext(&f.start);
  }

  void release() {
    for (size_t i = 0; i < fibers_.size(); i += kWarp)
      release(i, std::min(i + kWarp, fibers_.size()), State::AtWarp);
    release(0, fibers_.size(), State::AtBlock);
  }
  void release(size_t begin, size_t end, State at) {
    if (std::all_of(&fibers_[begin], &fibers_[begin] + (end - begin),
                    [&](const Fiber &f) { return f.state == at; }))
      for (size_t i = begin; i < end; ++i)
        fibers_[i].state = State::Ready;
  }

  const std::function<void()> *body_ = nullptr;
  std::vector<Fiber> fibers_;
  std::vector<Stack> stacks_;
  Stack schedulerStack_;
  jmp_buf scheduler_; // where the scheduler resumed a fiber
  size_t now_ = 0;
  std::mt19937_64 random_{1};
};

Emulator &emulator() {
  static thread_local Emulator e;
  return e;
}

void Emulator::enter() {
  Emulator &e = emulator();
  afterSwitch(e.schedulerStack_, e.stacks_[e.now_]);
  (*e.body_)();
  e.wait(State::Done);
}

} // namespace

void waitForBlock() { emulator().wait(State::AtBlock); }
void waitForWarp() { emulator().wait(State::AtWarp); }

uint32_t ofLaneInWarp(uint32_t word, unsigned lane) {
  emulator().now().word = word;
  waitForWarp();
  uint32_t got = emulator().inWarp(lane).word;
  waitForWarp(); // before the next word overwrites this one
  return got;
}

void emulateInOrder(uint64_t order) { orderOfThreads = order; }

void emulateThreads(int64_t blocks, int lanes, int teams, bool wait,
                    const std::function<void()> &thread) {
  for (size_t block : emulator().order(size_t(blocks))) {
    EmulatedThread first = {0, unsigned(lanes), 0, unsigned(teams), int64_t(block), blocks};
    if (wait)
      emulator().run(first, thread);
    else
      emulator().runAlone(first, thread);
  }
}

} // namespace isthmus::cuda
