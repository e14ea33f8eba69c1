// Ops that draw random numbers. Element i of the result gets draw i of its stream, as on the CPU. A
// thread draws the four words of a block.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/draws.h"

namespace isthmus::cuda {
namespace {

// Writes the n elements of y: pack(words, p, n) returns the four elements of block p. Element 0 has
// draw 4 `first`.
template <typename T, typename F>
void forEachBlock(const Launch &l, T *y, F pack, int64_t first = 0) {
  const RandomKey *random = l.args.random; // in device memory; the threads read it
  uint64_t stream = static_cast<uint64_t>(l.call.attrs->getInt("stream"));
  int64_t n = l.call.results[0].elements();
  forEach(l.queue, (n + 3) / 4, [=] ISTHMUS_GPU(int64_t block) {
    uint32_t apart[4][1], words[4];
    philoxBlocks(philoxKey(random->seed, random->step, stream), uint64_t(first + block), apart);
    for (int w = 0; w < 4; ++w)
      words[w] = apart[w][0];
    storePack(y, block, n, pack(words, block, n));
  });
}

template <typename T> struct DropoutPack {
  const T *x;
  Dropout<T> drop;
  ISTHMUS_DEVICE Pack<T, 4> operator()(const uint32_t (&words)[4], int64_t block, int64_t n) const {
    Pack<T, 4> pack = loadPack<4>(x, block, n);
    for (int i = 0; i < 4; ++i)
      pack.element[i] = drop(pack.element[i], words[i]);
    return pack;
  }
};
template <typename T> struct UniformPack {
  Uniform<T> number;
  ISTHMUS_DEVICE Pack<T, 4> operator()(const uint32_t (&words)[4], int64_t, int64_t) const {
    Pack<T, 4> pack;
    for (int i = 0; i < 4; ++i)
      pack.element[i] = number(words[i]);
    return pack;
  }
};
template <typename T> struct NormalPack {
  Normal normal;
  ISTHMUS_DEVICE Pack<T, 4> operator()(const uint32_t (&words)[4], int64_t, int64_t) const {
    double draw[4];
    normal(words[0], words[1], draw);
    normal(words[2], words[3], draw + 2);
    Pack<T, 4> pack;
    for (int i = 0; i < 4; ++i)
      pack.element[i] = static_cast<T>(static_cast<Compute<T>>(draw[i]));
    return pack;
  }
};

struct Copied {
  template <typename T> ISTHMUS_DEVICE T operator()(T x) const { return x; }
};

void runDropout(const Launch &l) {
  bool training = l.call.attrs->getBool("training");
  double ratio = l.call.attrs->getFloat("ratio");
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *x = l.operand<T>(0);
    T *y = l.result<T>(0);
    if (training)
      forEachBlock(l, y, DropoutPack<T>{x, dropout<T>(ratio)}, l.call.attrs->getInt("first") / 4);
    else if (x != y)
      mapOne<T>(l, Copied());
  });
}

void runUniform(const Launch &l) {
  double low = l.call.attrs->getFloat("low"), high = l.call.attrs->getFloat("high");
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forEachBlock(l, l.result<T>(0), UniformPack<T>{uniform<T>(low, high)});
  });
}

void runNormal(const Launch &l) {
  Normal normal{l.call.attrs->getFloat("mean"), l.call.attrs->getFloat("std")};
  dispatchFloat(l.call.results[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    forEachBlock(l, l.result<T>(0), NormalPack<T>{normal});
  });
}

} // namespace

void registerRandom(KernelTable &table) {
  table.add({"dropout", "cuda", prepareGrid<runDropout>});
  table.add({"uniform", "cuda", prepareGrid<runUniform>});
  table.add({"normal", "cuda", prepareGrid<runNormal>});
}

} // namespace isthmus::cuda
