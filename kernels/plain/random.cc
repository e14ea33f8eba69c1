// Ops that draw random numbers. An element of the result gets a draw of its stream by its place
// (ir/ops/random.cc), whichever thread computes it.

#include "kernels/element/draws.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

constexpr int kBlocks = 64; // blocks of four words that are drawn together
constexpr int64_t kBatch = 4 * kBlocks;
constexpr int kFewBlocks = 4; // those drawn together for short runs; it divides kBlocks

PhiloxKey keyOf(const OpCall &call, const KernelArgs &args) {
  return philoxKey(args.random->seed, args.random->step,
                   static_cast<uint64_t>(call.attrs->getInt("stream")));
}

DrawPlaces placesOf(const OpCall &call) {
  return {call.attrs->getInt("first"), call.attrs->getInt("run"), call.attrs->getInt("stride")};
}

// The words of `N` blocks from `block` on, in order.
template <int N> void drawBlocks(PhiloxKey key, uint64_t block, uint32_t *words) {
  uint32_t apart[4][N];
  philoxBlocks(key, block, apart);
  for (int i = 0; i < N; ++i) {
    words[4 * i] = apart[0][i];
    words[4 * i + 1] = apart[1][i];
    words[4 * i + 2] = apart[2][i];
    words[4 * i + 3] = apart[3][i];
  }
}

// Calls body(words, lead, element, count), where words[lead + i] belongs to `element` + i and word
// 0 is the first of a block.
template <typename Body>
void forEachPiece(PhiloxKey key, const DrawPlaces &places, int64_t begin, int64_t end, Body body) {
  uint32_t words[kBatch] = {};
  while (begin < end) {
    const int64_t draw = places.of(begin), lead = draw % 4;
    const int64_t count = std::min({end - begin, places.leftInRun(begin), kBatch - lead});
    const int64_t blocks = (lead + count + 3) / 4;
    if (blocks == kBlocks)
      drawBlocks<kBlocks>(key, uint64_t(draw / 4), words);
    else
      for (int64_t b = 0; b < blocks; b += kFewBlocks)
        drawBlocks<kFewBlocks>(key, uint64_t(draw / 4 + b), words + 4 * b);
    body(words, lead, begin, count);
    begin += count;
  }
}

template <typename Body>
void forEachBatch(PhiloxKey key, int64_t n, const DrawPlaces &places, Body body) {
  int64_t batches = (n + kBatch - 1) / kBatch;
  parallelFor(batches, kGrain / kBatch / 4, [=](int64_t begin, int64_t end) {
    vectorised([=] { forEachPiece(key, places, begin * kBatch, std::min(n, end * kBatch), body); });
  });
}

void runDropout(const OpCall &call, const KernelArgs &args) {
  bool training = call.attrs->getBool("training");
  double ratio = call.attrs->getFloat("ratio");
  int64_t n = call.results[0].elements();
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = operand<T>(args, 0);
    T *y = result<T>(args, 0);
    if (!training) {
      if (x != y)
        parallelFor(n, kGrain,
                    [=](int64_t begin, int64_t end) { std::copy(x + begin, x + end, y + begin); });
      return;
    }
    auto drop = dropout<T>(ratio);
    forEachBatch(keyOf(call, args), n, placesOf(call),
                 [=](const uint32_t(&words)[kBatch], int64_t lead, int64_t first, int64_t count) {
                   const T *from = x + first;
                   T *to = y + first;
#pragma GCC ivdep
                   for (int64_t i = 0; i < count; ++i)
                     to[i] = drop(from[i], words[lead + i]);
                 });
  });
}

void runUniform(const OpCall &call, const KernelArgs &args) {
  double low = call.attrs->getFloat("low"), high = call.attrs->getFloat("high");
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T *y = result<T>(args, 0);
    auto number = uniform<T>(low, high);
    forEachBatch(keyOf(call, args), call.results[0].elements(), placesOf(call),
                 [=](const uint32_t(&words)[kBatch], int64_t lead, int64_t first, int64_t count) {
                   for (int64_t i = 0; i < count; ++i)
                     y[first + i] = number(words[lead + i]);
                 });
  });
}

void runNormal(const OpCall &call, const KernelArgs &args) {
  Normal normal{call.attrs->getFloat("mean"), call.attrs->getFloat("std")};
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T *y = result<T>(args, 0);
    forEachBatch(keyOf(call, args), call.results[0].elements(), placesOf(call),
                 [=](const uint32_t(&words)[kBatch], int64_t lead, int64_t first, int64_t count) {
                   double draw[kBatch];
                   for (int64_t pair = 0; pair < lead + count; pair += 2)
                     normal(words[pair], words[pair + 1], &draw[pair]);
                   for (int64_t i = 0; i < count; ++i)
                     y[first + i] = static_cast<T>(static_cast<Compute<T>>(draw[lead + i]));
                 });
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainRandom(KernelTable &table) {
  using namespace plain;
  table.add({"dropout", "plain", prepareThreaded<runDropout>});
  table.add({"uniform", "plain", prepareThreaded<runUniform>});
  table.add({"normal", "plain", prepareThreaded<runNormal>});
}

} // namespace isthmus
