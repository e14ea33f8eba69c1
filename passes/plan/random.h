// A small generator of random numbers.
#pragma once

#include "ir/splitmix64.h"
#include <cmath>
#include <cstdint>

namespace isthmus::plan {

struct Random {
  uint64_t state = 0;

  uint64_t next() { return nextSplitMix64(state); }
  uint32_t below(size_t n) { return static_cast<uint32_t>(((next() >> 32) * n) >> 32); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; } // [0, 1)
  bool chance(double p) { return unit() < p; }
  double exponential() { return -std::log(1 - unit()); } // mean 1
};

} // namespace isthmus::plan
