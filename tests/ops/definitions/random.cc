// Draws: Philox4x32-10 (Salmon et al. 2011), keyed by the seed, counts blocks of four words in the
// lower half of its counter; the upper half is the step and the stream. Draw i has word i % 4 of
// block i / 4. What step and stream have beyond 32 bits is mixed into the seed.

#include "tests/ops/definitions/definitions.h"
#include <array>

namespace isthmus::definitions {
namespace {

uint32_t wordOf(const OpCall &call, int64_t draw) {
  std::array<uint32_t, 4> c = {uint32_t(draw / 4), uint32_t(draw / 4 >> 32), uint32_t(kStep),
                               uint32_t(call.attrs->getInt("stream"))};
  static_assert(kStep >> 32 == 0);
  uint32_t k0 = uint32_t(kSeed);
  uint32_t k1 = uint32_t(kSeed >> 32) ^ uint32_t(call.attrs->getInt("stream") >> 32) * 0x85EBCA6B;
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k1, uint32_t(a)};
  }
  return c[size_t(draw % 4)];
}
constexpr Number kWords = 4294967296.0L;

// The draw of element i.
int64_t drawOf(const OpCall &call, size_t i) {
  const int64_t first = call.attrs->getInt("first"), run = call.attrs->getInt("run");
  return run == 0 ? first + int64_t(i)
                  : first + int64_t(i) / run * call.attrs->getInt("stride") + int64_t(i) % run;
}

void dropout(const OpCall &call, Operands x, Results y) {
  const Number ratio = call.attrs->getFloat("ratio");
  for (size_t i = 0; i < y[0].values.size(); ++i) {
    const bool drops = wordOf(call, drawOf(call, i)) < std::round(ratio * kWords);
    y[0].values[i] = !call.attrs->getBool("training") ? x[0].values[i]
                     : drops                          ? 0
                                                      : x[0].values[i] / (1 - ratio);
  }
}
void uniform(const OpCall &call, Operands, Results y) { // f64 has 32 random bits, others have 24
  const Number low = call.attrs->getFloat("low"), high = call.attrs->getFloat("high");
  for (size_t i = 0; i < y[0].values.size(); ++i) {
    const uint32_t word = wordOf(call, drawOf(call, i));
    const uint32_t kept = y[0].type.dtype == DType::F64 ? word : word & ~uint32_t(0xff);
    y[0].values[i] = low + (high - low) * (kept / kWords);
  }
}
// Box and Muller (1958): each pair of words gives two draws.
void normal(const OpCall &call, Operands, Results y) {
  for (size_t i = 0; i < y[0].values.size(); ++i) {
    const int64_t draw = drawOf(call, i), first = draw / 2 * 2;
    const Number radius = std::sqrt(-2 * std::log((wordOf(call, first) + 0.5L) / kWords)),
                 angle = 2 * std::acos(-1.0L) * (wordOf(call, first + 1) / kWords);
    y[0].values[i] = call.attrs->getFloat("mean") + call.attrs->getFloat("std") * radius *
                                                        (draw % 2 ? std::sin(angle) : std::cos(angle));
  }
}

} // namespace

void defineRandom(Table &t) {
  t["dropout"] = {dropout};
  t["uniform"] = {uniform};
  t["normal"] = {normal};
}

} // namespace isthmus::definitions
