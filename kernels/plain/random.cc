// Ops that draw random numbers. Element i of the result gets draw i of its stream, whichever thread
// computes it.

#include "kernels/element/draws.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

constexpr int kBlocks = 64; // blocks of four words that are drawn together
constexpr int64_t kBatch = 4 * kBlocks;

PhiloxKey keyOf(const OpCall &call, const KernelArgs &args) {
  return philoxKey(args.random->seed, args.random->step,
                   static_cast<uint64_t>(call.attrs->getInt("stream")));
}

// Calls body(words, first, count), where words[i] belongs to element first + i. There are always
// kBatch words, so that loops over all have a fixed length; words past `count` are unused. Element
// 0 has draw 4 `block`.
template <typename Body> void forEachBatch(PhiloxKey key, int64_t n, int64_t block, Body body) {
  int64_t batches = (n + kBatch - 1) / kBatch;
  parallelFor(batches, kGrain / kBatch / 4, [=](int64_t begin, int64_t end) {
    vectorised([=] {
      for (int64_t b = begin; b < end; ++b) {
        uint32_t apart[4][kBlocks], words[kBatch];
        philoxBlocks(key, uint64_t(block + b * kBlocks), apart);
        for (int i = 0; i < kBlocks; ++i) {
          words[4 * i] = apart[0][i];
          words[4 * i + 1] = apart[1][i];
          words[4 * i + 2] = apart[2][i];
          words[4 * i + 3] = apart[3][i];
        }
        body(words, b * kBatch, std::min(kBatch, n - b * kBatch));
      }
    });
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
    forEachBatch(keyOf(call, args), n, call.attrs->getInt("first") / 4,
                 [=](const uint32_t(&words)[kBatch], int64_t first, int64_t count) {
                   const T *from = x + first;
                   T *to = y + first;
#pragma GCC ivdep
                   for (int64_t i = 0; i < count; ++i)
                     to[i] = drop(from[i], words[i]);
                 });
  });
}

void runUniform(const OpCall &call, const KernelArgs &args) {
  double low = call.attrs->getFloat("low"), high = call.attrs->getFloat("high");
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T *y = result<T>(args, 0);
    auto number = uniform<T>(low, high);
    forEachBatch(keyOf(call, args), call.results[0].elements(), 0,
                 [=](const uint32_t(&words)[kBatch], int64_t first, int64_t count) {
                   for (int64_t i = 0; i < count; ++i)
                     y[first + i] = number(words[i]);
                 });
  });
}

void runNormal(const OpCall &call, const KernelArgs &args) {
  Normal normal{call.attrs->getFloat("mean"), call.attrs->getFloat("std")};
  dispatchFloat(call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T *y = result<T>(args, 0);
    forEachBatch(keyOf(call, args), call.results[0].elements(), 0,
                 [=](const uint32_t(&words)[kBatch], int64_t first, int64_t count) {
                   double draw[kBatch];
                   for (int64_t block = 0; block < kBlocks; ++block)
                     for (int pair = 0; pair < 4; pair += 2)
                       normal(words[4 * block + pair], words[4 * block + pair + 1],
                              &draw[4 * block + pair]);
                   for (int64_t i = 0; i < count; ++i)
                     y[first + i] = static_cast<T>(static_cast<Compute<T>>(draw[i]));
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
