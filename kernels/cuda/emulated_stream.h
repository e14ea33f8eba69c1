// A stream of an emulated GPU. What is launched on it runs when somebody asks whether it has run,
// so that memory that is read or overwritten too early changes the results.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>

namespace isthmus::cuda {

struct EmulatedStream {
  std::deque<std::function<bool()>> pending; // each returns whether it has run; in order
  uint64_t numDone = 0;

  void advance() {
    while (!pending.empty() && pending.front()()) {
      pending.pop_front();
      ++numDone;
    }
  }
};

} // namespace isthmus::cuda
