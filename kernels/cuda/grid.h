// The two forms that our GPU kernels have: a function of an index, and a function of a team of
// threads that share rows of work. Under nvcc they run on a GPU; compiled by any other compiler
// they are loops with the same arithmetic in the same order, or run by the threads that threads.h
// emulates, which is how they are tested without a GPU.
//
// A body is a lambda marked ISTHMUS_GPU that captures by value; nvcc wants it inside a named
// function (or a public static member), not inside a generic lambda. All results follow from the
// arguments and the shape alone: no atomics, no order that depends on the device.
#pragma once

#include "kernels/cuda/queue.h"
#include "kernels/cuda/threads.h"
#include "kernels/element/portable.h"
#include <algorithm>
#include <cstring>

namespace isthmus::cuda {

// How a launch is cut into blocks of threads. Blocks go on in steps of the whole grid until all is
// done, so their number, which depends on the device, changes no result.
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

// A block of threads; or, where they are 32, one warp of a block, which never waits for the others.
class Team {
public:
  // Calls body(i) for i in [0, n), spread over the lanes. Afterwards all lanes see what it wrote.
  template <typename Body> ISTHMUS_GPU void forEach(int64_t n, Body body) const {
    for (int64_t i = lane(); i < n; i += lanes())
      body(i);
    wait();
  }

  // Folds i in [0, n): lane l goes through l, l + lanes, ... by state = next(state, i), beginning
  // with `start`; the lanes' states are folded as a tree. Every lane gets the result. `start` must
  // change nothing when folded.
  template <typename State, typename Next, typename Fold>
  ISTHMUS_GPU State reduce(int64_t n, State start, Next next, Fold fold) const {
    State s = start;
    for (int64_t i = lane(); i < n; i += lanes())
      s = next(s, i);
    if (lanes() > 32) { // down to 32 states, which every warp then folds for itself
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
      waitForBlock(); // the memory may be used again at once
    }
    for (int width = 16; width > 0; width /= 2)
      s = fold(s, ofLane(s, (lane() + width) % 32));
    return ofLane(s, 0);
  }

  // Whether this is the lane that does what is to be done once.
  ISTHMUS_GPU bool isFirst() const { return lane() == 0; }

  // For all lanes: what each has read is read, and what it wrote is seen.
  ISTHMUS_GPU void wait() const {
    if (lanes() > 32)
      waitForBlock();
    else
      waitForWarp();
  }

private:
  // What `s` is in another lane of the warp.
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

// A thread that does a team's work alone.
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

// Lanes for rows of `length`: a power of two, so that few lanes idle; it decides the order of sums.
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

// body(i) for every i in [0, n), in any order.
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

// body(t, team) for every t in [0, teams), each by a team fit for rows of `length`. What the lanes
// hold in variables of their own must be the same in all of them outside of `forEach` and `reduce`.
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

// body(t, worker) for every t in [0, n): by a team each, or, `alone`, by a thread each. For bodies
// that are structs with a template of a call operator.
template <typename Body>
void forEachWorker(const Queue &queue, bool alone, int64_t n, int64_t length, Body body) {
  if (alone)
    forEach(queue, n, [=] ISTHMUS_GPU(int64_t t) { body(t, Lone()); });
  else
    forEachTeam(queue, n, length, body);
}

} // namespace isthmus::cuda
