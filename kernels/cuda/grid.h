// The two forms of our GPU kernels: a function of an index, and a function of a team of threads
// that share rows of work. nvcc compiles them for a GPU. Other compilers turn them into loops with
// the same arithmetic in the same order, or run them on the threads that threads.h emulates; so
// they are tested without a GPU.
//
// A body is a lambda marked ISTHMUS_GPU that captures by value. nvcc requires that it is inside a
// named function (or a public static member), not inside a generic lambda. Results depend on the
// arguments and the shape alone: there are no atomics, and no order depends on the device.
#pragma once

#include "kernels/cuda/queue.h"
#include "kernels/cuda/threads.h"
#include "kernels/element/portable.h"
#include <algorithm>
#include <cstring>

namespace isthmus::cuda {

// The division of a launch into blocks of threads. Each block continues in steps of the whole grid
// until all work is done, so the number of blocks, which depends on the device, affects no result.
struct Geometry {
  int64_t blocks;
  int lanes, teams; // threads of a team, and teams in a block
};

inline void launchLoop(const Queue &queue, std::function<void()> loop) {
  if (queue.recording)
    queue.recording->push_back(std::move(loop));
  else
    loop();
}

#ifdef ISTHMUS_HAS_THREADS

// A team is a whole block of threads, or, with 32 lanes, one warp of a block; a warp never waits
// for the other warps.
class Team {
public:
  // Calls body(i) for i in [0, n), distributed over the lanes. Afterwards all lanes see its writes.
  template <typename Body> ISTHMUS_GPU void forEach(int64_t n, Body body) const {
    for (int64_t i = lane(); i < n; i += lanes())
      body(i);
    wait();
  }

  // Reduces i in [0, n): lane l computes state = next(state, i) for i = l, l + lanes, ..., starting
  // from `start`; then the lanes' states are folded as a tree. Every lane returns the result.
  // `start` must be the identity of `fold`.
  template <typename State, typename Next, typename Fold>
  ISTHMUS_GPU State reduce(int64_t n, State start, Next next, Fold fold) const {
    State s = start;
    for (int64_t i = lane(); i < n; i += lanes())
      s = next(s, i);
    // Folds down to 32 states; every warp then folds those for itself.
    if (lanes() > 32) {
      ISTHMUS_SHARED char memory[kMaxLanes * sizeof(State)];
      State *of = reinterpret_cast<State *>(memory);
      of[lane()] = s;
      waitForBlock();
      for (unsigned width = lanes() / 2; width >= 32; width /= 2) {
        if (lane() < width)
          of[lane()] = fold(of[lane()], of[lane() + width]);
        waitForBlock();
      }
      s = of[lane() % 32];
      waitForBlock(); // the memory may be overwritten at once
    }
    for (int width = 16; width > 0; width /= 2)
      s = fold(s, ofLane(s, (lane() + width) % 32));
    return ofLane(s, 0);
  }

  // Whether this lane does work that must be done once per team.
  ISTHMUS_GPU bool isFirst() const { return lane() == 0; }

  // A barrier for all lanes: earlier reads are done and earlier writes are visible.
  ISTHMUS_GPU void wait() const {
    if (lanes() > 32)
      waitForBlock();
    else
      waitForWarp();
  }

private:
  // The value of `s` in another lane of the warp.
  template <typename State> static ISTHMUS_GPU State ofLane(State s, unsigned lane) {
    constexpr int kWords = (sizeof(State) + 3) / 4;
    uint32_t words[kWords] = {};
    memcpy(words, &s, sizeof(State));
    for (int w = 0; w < kWords; ++w)
      words[w] = ofLaneInWarp(words[w], lane);
    memcpy(&s, words, sizeof(State));
    return s;
  }
};

template <typename Body> ISTHMUS_KERNEL runEach(int64_t n, Body body) {
  int64_t step = blocks() * lanes();
  for (int64_t i = block() * lanes() + lane(); i < n; i += step)
    body(i);
}
template <typename Body> ISTHMUS_KERNEL runTeams(int64_t count, Body body) {
  int64_t step = blocks() * teams();
  for (int64_t t = block() * teams() + team(); t < count; t += step)
    body(t, Team());
}

template <typename Body>
void launch(const Queue &queue, const Geometry &g, void (*kernel)(int64_t, Body), int64_t n,
            Body body, [[maybe_unused]] bool waits) {
#ifdef __CUDACC__
  kernel<<<unsigned(g.blocks), dim3(unsigned(g.lanes), unsigned(g.teams)), 0,
           static_cast<cudaStream_t>(queue.stream)>>>(n, body);
#else
  launchLoop(queue,
             [=] { emulateThreads(g.blocks, g.lanes, g.teams, waits, [=] { kernel(n, body); }); });
#endif
}

#else

class Team {
public:
  explicit Team(int lanes) : lanes_(lanes) {}
  template <typename Body> void forEach(int64_t n, Body body) const {
    for (int64_t i = 0; i < n; ++i)
      body(i);
  }
  template <typename State, typename Next, typename Fold>
  State reduce(int64_t n, State start, Next next, Fold fold) const {
    State lane[kMaxLanes];
    std::fill(lane, lane + lanes_, start);
    for (int64_t i = 0; i < n; ++i)
      lane[i % lanes_] = next(lane[i % lanes_], i);
    for (int width = lanes_ / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l)
        lane[l] = fold(lane[l], lane[l + width]);
    return lane[0];
  }
  bool isFirst() const { return true; }
  void wait() const {}

private:
  int lanes_;
};

#endif

// A team of a single thread.
class Lone {
public:
  template <typename Body> ISTHMUS_GPU void forEach(int64_t n, Body body) const {
    for (int64_t i = 0; i < n; ++i)
      body(i);
  }
  template <typename State, typename Next, typename Fold>
  ISTHMUS_GPU State reduce(int64_t n, State start, Next next, Fold) const {
    State s = start;
    for (int64_t i = 0; i < n; ++i)
      s = next(s, i);
    return s;
  }
  ISTHMUS_GPU bool isFirst() const { return true; }
  ISTHMUS_GPU void wait() const {}
};

// The number of lanes for rows of `length`: a power of two, chosen so that few lanes idle. It
// determines the order of sums.
inline int lanesFor(int64_t length) {
  int lanes = 32;
  while (lanes < kMaxLanes && lanes * 4 <= length)
    lanes *= 2;
  return lanes;
}

inline Geometry geometryOfEach(int64_t n, int multiprocessors) {
  return {std::min<int64_t>((n + kMaxLanes - 1) / kMaxLanes, int64_t(multiprocessors) * 32),
          kMaxLanes, 1};
}
inline Geometry geometryOfTeams(int64_t teams, int64_t length, int multiprocessors) {
  int lanes = lanesFor(length), together = lanes == 32 ? kMaxLanes / 32 : 1; // warps share blocks
  return {std::min<int64_t>((teams + together - 1) / together, int64_t(multiprocessors) * 1024),
          lanes, together};
}

// Calls body(i) for every i in [0, n), in any order.
template <typename Body> void forEach(const Queue &queue, int64_t n, Body body) {
  if (n <= 0)
    return;
#ifdef ISTHMUS_HAS_THREADS
  launch(queue, geometryOfEach(n, queue.multiprocessors), runEach<Body>, n, body, /*waits=*/false);
#else
  launchLoop(queue, [=] {
    for (int64_t i = 0; i < n; ++i)
      body(i);
  });
#endif
}

// Calls body(t, team) for every t in [0, teams), each on a team sized for rows of `length`. Outside
// `forEach` and `reduce`, the lanes' local variables must be equal in all lanes.
template <typename Body>
void forEachTeam(const Queue &queue, int64_t teams, int64_t length, Body body) {
  if (teams <= 0)
    return;
  Geometry g = geometryOfTeams(teams, length, queue.multiprocessors);
#ifdef ISTHMUS_HAS_THREADS
  launch(queue, g, runTeams<Body>, teams, body, /*waits=*/true);
#else
  launchLoop(queue, [=] {
    for (int64_t t = 0; t < teams; ++t)
      body(t, Team(g.lanes));
  });
#endif
}

// Calls body(t, worker) for every t in [0, n). The worker is a team, or a single thread if `alone`.
// For bodies that are structs with a templated call operator.
template <typename Body>
void forEachWorker(const Queue &queue, bool alone, int64_t n, int64_t length, Body body) {
  if (alone)
    forEach(queue, n, [=] ISTHMUS_GPU(int64_t t) { body(t, Lone()); });
  else
    forEachTeam(queue, n, length, body);
}

} // namespace isthmus::cuda
