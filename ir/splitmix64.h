// SplitMix64: the generator of all our random numbers but those of random ops, which use Philox.
// Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014.
#pragma once

#include <cstdint>

namespace isthmus {

constexpr uint64_t kSplitMix64Step = 0x9e3779b97f4a7c15;

// The generator's output in state `x`. It is also a hash of `x`, so that draw i of a stream can be
// computed without the draws before it.
constexpr uint64_t splitMix64(uint64_t x) {
  x += kSplitMix64Step;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr uint64_t nextSplitMix64(uint64_t &state) {
  uint64_t drawn = splitMix64(state);
  state += kSplitMix64Step;
  return drawn;
}

} // namespace isthmus
