// Ops that draw random numbers. An element of the result gets a draw of its stream by its place
// (ir/ops/random.cc), as on the CPU. A thread makes four elements, mostly of one block of words.

#include "kernels/cuda/map.h"
#include "kernels/cuda/register.h"
#include "kernels/element/draws.h"

namespace isthmus::cuda {
namespace {

// Writes the n elements of y: pack(words, p, n) returns the four elements of block p where they
// have the draws of one block, and pack.one(words, w, i) element i with word w of a block.
template <typename T, typename F> void forEachBlock(const Launch &l, T *y, F pack) {
  const RandomKey *random = l.args.random; // in device memory; the threads read it
  const Attrs &attrs = *l.call.attrs;
  const uint64_t stream = static_cast<uint64_t>(attrs.getInt("stream"));
  const DrawPlaces places{attrs.getInt("first"), attrs.getInt("run"), attrs.getInt("stride")};
  const int64_t n = l.call.results[0].elements();
  auto drawn = [=] ISTHMUS_DEVICE(int64_t block, uint32_t(&words)[4]) {
    uint32_t apart[4][1];
    philoxBlocks(philoxKey(random->seed, random->step, stream), uint64_t(block), apart);
    for (int w = 0; w < 4; ++w)
      words[w] = apart[w][0];
  };
  if (places.run == 0 && places.first % 4 == 0) {
    forEach(l.queue, (n + 3) / 4, [=] ISTHMUS_GPU(int64_t p) {
      uint32_t words[4];
      drawn(places.first / 4 + p, words);
      storePack(y, p, n, pack(words, p, n));
    });
    return;
  }
  forEach(l.queue, (n + 3) / 4, [=] ISTHMUS_GPU(int64_t p) {
    uint32_t words[4];
    int64_t block = -1;
    for (int64_t i = 4 * p; i < 4 * p + 4 && i < n; ++i) {
      const int64_t draw = places.of(i);
      if (draw / 4 != block)
        drawn(block = draw / 4, words);
      y[i] = pack.one(words, int(draw % 4), i);
    }
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
  ISTHMUS_DEVICE T one(const uint32_t (&words)[4], int w, int64_t i) const {
    return drop(x[i], words[w]);
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
  ISTHMUS_DEVICE T one(const uint32_t (&words)[4], int w, int64_t) const {
    return number(words[w]);
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
  ISTHMUS_DEVICE T one(const uint32_t (&words)[4], int w, int64_t) const {
    double draw[2];
    normal(words[w & ~1], words[w | 1], draw);
    return static_cast<T>(static_cast<Compute<T>>(draw[w & 1]));
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
      forEachBlock(l, y, DropoutPack<T>{x, dropout<T>(ratio)});
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
