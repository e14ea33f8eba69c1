// A small generator whose whole state is one number, so that a choice can be made again.
#pragma once

#include <cmath>
#include <cstdint>

namespace isthmus::plan {

// SplitMix64 (Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators, 2014).
struct Random {
  uint64_t state = 0;

  uint64_t next() {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  uint32_t below(size_t n) { return static_cast<uint32_t>(((next() >> 32) * n) >> 32); }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; } // [0, 1)
  bool chance(double p) { return unit() < p; }
  double exponential() { return -std::log(1 - unit()); } // mean 1
};

} // namespace isthmus::plan
