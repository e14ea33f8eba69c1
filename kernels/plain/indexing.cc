// Gathers and scatters whose indices are tensors. Updates of one element are combined in their
// order, for any number of threads.

#include "kernels/element/indexing.h"
#include "kernels/element/arithmetic.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"
#include <cstring>

namespace isthmus::plain {
namespace {

Indices indicesOf(const OpCall &call, const KernelArgs &args) {
  return Indices(args.operands[1], call.operands[1].dtype);
}

// --- Elements along an axis

// Calls body(start in x, start in indices) for columns [begin, end).
template <typename Body>
void forEachColumn(const Walk<2> &walk, int64_t begin, int64_t end, Body body) {
  int64_t rowX = walk.rowStride(0), row = walk.rowStride(1);
  walk.forEachRow(begin, end, [&](const std::array<int64_t, 2> &at, int64_t n) {
    for (int64_t i = 0; i < n; ++i)
      body(at[0] + i * rowX, at[1] + i * row);
  });
}
template <typename Body> void forEachThreaded(const Pairs &p, Body body) {
  Walk<2> walk = p.walk();
  parallelFor(walk.elements(), kGrain / (p.count + 1) + 1,
              [&](int64_t begin, int64_t end) { forEachColumn(walk, begin, end, body); });
}

template <typename T> void gatherElements(const OpCall &call, const KernelArgs &args) {
  Pairs p(call);
  Indices indices = indicesOf(call, args);
  const T *x = operand<T>(args, 0);
  T *y = result<T>(args, 0), none = nothing<T>(call.results[0].dtype);
  forEachThreaded(p, [&](int64_t fromX, int64_t from) {
    for (int64_t i = 0; i < p.count; ++i) {
      int64_t k = indices.at(from + i * p.step, p.size);
      y[from + i * p.step] = k < 0 ? none : x[fromX + k * p.stepX];
    }
  });
}

// Goes from the last index to the first; `taken` has a flag for each element of a column of x. Only
// the last index of an element reads it; earlier ones give zero.
template <typename T>
void gatherLastElements(const OpCall &call, const KernelArgs &args, bool *taken) {
  Pairs p(call);
  Indices indices = indicesOf(call, args);
  const T *x = operand<T>(args, 0);
  T *y = result<T>(args, 0), none = nothing<T>(call.results[0].dtype);
  Walk<2> walk = p.walk();
  forEachColumn(walk, 0, walk.elements(), [&](int64_t fromX, int64_t from) {
    std::fill_n(taken, p.size, false);
    for (int64_t i = p.count; i-- > 0;) {
      int64_t k = indices.at(from + i * p.step, p.size);
      T &to = y[from + i * p.step];
      to = k < 0 ? none : taken[k] ? T(0) : x[fromX + k * p.stepX];
      if (k >= 0)
        taken[k] = true;
    }
  });
}

// --- Slices by tuples

template <typename T> void gatherSlices(const OpCall &call, const KernelArgs &args) {
  Slices<Dims> s(call);
  Indices indices = indicesOf(call, args);
  const T *x = operand<T>(args, 0);
  T *y = result<T>(args, 0), none = nothing<T>(call.results[0].dtype);
  parallelFor(s.count(), kGrain / (s.length + 1) + 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      int64_t from = s.slice(indices, t);
      if (from < 0)
        std::fill_n(y + t * s.length, s.length, none);
      else
        std::copy_n(x + from * s.length, s.length, y + t * s.length);
    }
  });
}

template <typename T>
void gatherLastSlices(const OpCall &call, const KernelArgs &args, bool *taken) {
  Slices<Dims> s(call);
  Indices indices = indicesOf(call, args);
  const T *x = operand<T>(args, 0);
  T *y = result<T>(args, 0), none = nothing<T>(call.results[0].dtype);
  std::fill_n(taken, s.batches * s.perBatch, false);
  for (int64_t t = s.count(); t-- > 0;) {
    int64_t from = s.slice(indices, t);
    if (from < 0 || taken[from])
      std::fill_n(y + t * s.length, s.length, from < 0 ? none : T(0));
    else
      std::copy_n(x + from * s.length, s.length, y + t * s.length);
    if (from >= 0)
      taken[from] = true;
  }
}

class Gather : public PreparedKernel {
public:
  Gather(const OpCall &call)
      : attrs_(*call.attrs), call_(call), elements_(call.op->name == "gather_elements") {
    call_.attrs = &attrs_;
  }
  int64_t workspaceBytes() const override {
    if (!call_.attrs->getBool("last_only"))
      return 0;
    if (elements_)
      return Pairs(call_).size;
    Slices<Dims> s(call_);
    return s.batches * s.perBatch;
  }
  void run(const KernelArgs &args) override {
    bool *taken = static_cast<bool *>(args.workspace);
    dispatchSize(call_.results[0].dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (call_.attrs->getBool("last_only"))
        elements_ ? gatherLastElements<T>(call_, args, taken)
                  : gatherLastSlices<T>(call_, args, taken);
      else
        elements_ ? gatherElements<T>(call_, args) : gatherSlices<T>(call_, args);
    });
  }

private:
  Attrs attrs_;
  OpCall call_;
  bool elements_;
};

std::unique_ptr<PreparedKernel> prepareGather(const OpCall &call, const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(std::make_unique<Gather>(call), options.threads);
}

// --- Scatters

struct Replace {
  template <typename T> T operator()(T, T b) const { return b; }
};
// Calls f with the element type and the function that combines an element with an update.
template <typename F> void dispatchReduction(const OpCall &call, F f) {
  const std::string &how = call.attrs->getString("reduction");
  DType t = call.results[0].dtype;
  if (how == "none")
    return dispatchSize(t, [&](auto tag) { f(tag, Replace()); });
  dispatchNumber(t, [&](auto tag) {
    if (how == "add")
      f(tag, Add());
    else if (how == "mul")
      f(tag, Mul());
    else if (how == "max")
      f(tag, Maximum());
    else
      f(tag, Minimum());
  });
}

void copyData(const OpCall &call, const KernelArgs &args) {
  const char *from = operand<char>(args, 0);
  char *to = result<char>(args, 0);
  if (from != to)
    parallelFor(call.results[0].bytes(), 4 * kGrain, [=](int64_t begin, int64_t end) {
      std::memcpy(to + begin, from + begin, size_t(end - begin));
    });
}

void runScatterElements(const OpCall &call, const KernelArgs &args) {
  copyData(call, args);
  Pairs p(call);
  Indices indices = indicesOf(call, args);
  dispatchReduction(call, [&](auto tag, auto combine) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T *updates = operand<T>(args, 2);
    T *y = result<T>(args, 0);
    forEachThreaded(p, [&](int64_t toY, int64_t from) {
      for (int64_t i = 0; i < p.count; ++i) {
        int64_t at = from + i * p.step, k = indices.at(at, p.size);
        if (k < 0)
          continue;
        T &to = y[toY + k * p.stepX];
        to = T(combine(C(to), C(updates[at])));
      }
    });
  });
}

// Each thread owns a range of the slices and reads all indices.
void runScatterNd(const OpCall &call, const KernelArgs &args) {
  copyData(call, args);
  Slices<Dims> s(call);
  Indices indices = indicesOf(call, args);
  dispatchReduction(call, [&](auto tag, auto combine) {
    using T = typename decltype(tag)::type;
    using C = Compute<T>;
    const T *updates = operand<T>(args, 2);
    T *y = result<T>(args, 0);
    int64_t all = s.batches * s.perBatch;
    int64_t work = s.count() * s.length / (all + 1) + 1;
    parallelFor(all, kGrain / work + 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = 0; t < s.count(); ++t) {
        int64_t slice = s.slice(indices, t);
        if (slice < begin || slice >= end)
          continue;
        const T *from = updates + t * s.length;
        T *to = y + slice * s.length;
        for (int64_t j = 0; j < s.length; ++j)
          to[j] = T(combine(C(to[j]), C(from[j])));
      }
    });
  });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainIndexing(KernelTable &table) {
  using namespace plain;
  table.add({"gather_elements", "plain", prepareGather});
  table.add({"gather_nd", "plain", prepareGather});
  table.add({"scatter_elements", "plain", prepareThreaded<runScatterElements>});
  table.add({"scatter_nd", "plain", prepareThreaded<runScatterNd>});
}

} // namespace isthmus
