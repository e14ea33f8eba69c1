// Random numbers for every device: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, Parallel Random
// Numbers: As Easy as 1, 2, 3, SC 2011), a keyed bijection of counters. These are plain functions
// without library calls, so with contraction off they give the same bits under every compiler.
#pragma once

#include "kernels/element/portable.h"
#include <stdint.h>

namespace isthmus {

// The key of a stream of draws. Draw i of a stream is word i % 4 of block i / 4.
struct PhiloxKey {
  uint32_t key[2];     // the seed
  uint32_t counter[2]; // the upper half of the counter: step and stream
};

// Keys of different (seed, step, stream) differ; the upper halves of step and stream, zero in
// practice, are mixed into the seed's words.
ISTHMUS_DEVICE inline PhiloxKey philoxKey(uint64_t seed, uint64_t step, uint64_t stream) {
  PhiloxKey k;
  k.key[0] = uint32_t(seed) ^ uint32_t(step >> 32) * 0x9E3779B9u;
  k.key[1] = uint32_t(seed >> 32) ^ uint32_t(stream >> 32) * 0x85EBCA6Bu;
  k.counter[0] = uint32_t(step);
  k.counter[1] = uint32_t(stream);
  return k;
}

// `N` consecutive blocks from `block` on: word w of block `block + i` is words[w][i]. Each round
// loops over i, so that a compiler can compute the blocks in vector lanes.
template <int N>
ISTHMUS_DEVICE inline void philoxBlocks(PhiloxKey key, uint64_t block, uint32_t (&words)[4][N]) {
  for (int i = 0; i < N; ++i) {
    words[0][i] = uint32_t(block + i);
    words[1][i] = uint32_t((block + i) >> 32);
    words[2][i] = key.counter[0];
    words[3][i] = key.counter[1];
  }
  uint32_t k0 = key.key[0], k1 = key.key[1];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < N; ++i) {
      uint64_t a = uint64_t(0xD2511F53u) * words[0][i];
      uint64_t b = uint64_t(0xCD9E8D57u) * words[2][i];
      words[0][i] = uint32_t(b >> 32) ^ words[1][i] ^ k0;
      words[1][i] = uint32_t(b);
      words[2][i] = uint32_t(a >> 32) ^ words[3][i] ^ k1;
      words[3][i] = uint32_t(a);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// Which draws of its stream the elements of a tensor have: those of a part of a larger tensor have
// runs of them (ir/ops/random.cc).
struct DrawPlaces {
  int64_t first, run, stride;

  // The draw of an element.
  ISTHMUS_DEVICE int64_t of(int64_t element) const {
    return run > 0 ? first + element / run * stride + element % run : first + element;
  }
  // The elements from this one on whose draws follow each other.
  ISTHMUS_DEVICE int64_t leftInRun(int64_t element) const {
    return run > 0 ? run - element % run : INT64_MAX;
  }
};

// --- Draws from words

// An element is dropped if its word is below this.
ISTHMUS_DEVICE inline uint32_t dropThreshold(double ratio) {
  double share = ratio * 4294967296.0 + 0.5;
  return share >= 4294967295.0 ? 0xffffffffu : uint32_t(share);
}

// Uniform in [0, 1): with 24 bits, which a float holds exactly, or with 32.
ISTHMUS_DEVICE inline float uniformFloat(uint32_t word) {
  return float(word >> 8) * (1.0f / 16777216.0f);
}
ISTHMUS_DEVICE inline double uniformDouble(uint32_t word) {
  return double(word) * (1.0 / 4294967296.0);
}

// ln x for normal positive x, as 2 artanh((m - 1) / (m + 1)) with x = m 2^e and m near 1.
ISTHMUS_DEVICE inline double philoxLog(double x) {
  union {
    double number;
    uint64_t bits;
  } u;
  u.number = x;
  // Subtracting the bits of sqrt(1/2) first gives the exponent for which m is in [sqrt(1/2),
  // sqrt(2)).
  int64_t exponent = (int64_t(u.bits - 0x3FE6A09E667F3BCDull)) >> 52;
  u.bits -= uint64_t(exponent) << 52;
  double s = (u.number - 1.0) / (u.number + 1.0), q = s * s;
  double p = 1.0 / 21;
  p = p * q + 1.0 / 19;
  p = p * q + 1.0 / 17;
  p = p * q + 1.0 / 15;
  p = p * q + 1.0 / 13;
  p = p * q + 1.0 / 11;
  p = p * q + 1.0 / 9;
  p = p * q + 1.0 / 7;
  p = p * q + 1.0 / 5;
  p = p * q + 1.0 / 3;
  p = p * q + 1.0;
  return double(exponent) * 0.69314718055994530942 + 2.0 * s * p;
}

// Cosine and sine of `turn` full turns, 0 <= turn < 1, by Taylor series within an eighth of a turn.
ISTHMUS_DEVICE inline void philoxCosSin(double turn, double *cosine, double *sine) {
  int quarter = int(turn * 4.0 + 0.5);
  double x = (turn - quarter * 0.25) * 6.28318530717958647693, q = x * x;
  double c = 1.0 / 20922789888000.0;  // 1 / 16!
  double s = 1.0 / 355687428096000.0; // 1 / 17!
  c = c * q - 1.0 / 87178291200.0;    // 14!
  s = s * q - 1.0 / 1307674368000.0;  // 15!
  c = c * q + 1.0 / 479001600.0;      // 12!
  s = s * q + 1.0 / 6227020800.0;     // 13!
  c = c * q - 1.0 / 3628800.0;        // 10!
  s = s * q - 1.0 / 39916800.0;       // 11!
  c = c * q + 1.0 / 40320.0;          // 8!
  s = s * q + 1.0 / 362880.0;         // 9!
  c = c * q - 1.0 / 720.0;            // 6!
  s = s * q - 1.0 / 5040.0;           // 7!
  c = c * q + 1.0 / 24.0;             // 4!
  s = s * q + 1.0 / 120.0;            // 5!
  c = c * q - 0.5;                    // 2!
  s = s * q - 1.0 / 6.0;              // 3!
  c = c * q + 1.0;
  s = (s * q + 1.0) * x;
  bool swap = quarter & 1;
  double first = swap ? s : c, second = swap ? c : s;
  *cosine = (quarter & 3) == 1 || (quarter & 3) == 2 ? -first : first;
  *sine = (quarter & 3) == 2 || (quarter & 3) == 3 ? -second : second;
}

// Radius^2 of a pair of normal draws (Box and Muller, 1958), from the pair's first word. The caller
// takes the correctly rounded square root, which is spelt differently on each device.
ISTHMUS_DEVICE inline double normalRadiusSquared(uint32_t word) {
  return -2.0 * philoxLog((double(word) + 0.5) * (1.0 / 4294967296.0));
}

} // namespace isthmus
