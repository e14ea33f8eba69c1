// SplitMix64: the generator behind all of our draws but those of random ops, which have Philox.
// Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014.
#pragma once

#include <cstdint>

namespace isthmus {

constexpr uint64_t kSplitMix64Step = 0x9e3779b97f4a7c15;

// What the generator gives in state `x`; a hash of `x`, too, so that draw i of a stream can be had
// without those before it.
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
