// Weighted sums of elements whose places are operands. Sums are in double, in the order of points
// and taps, whatever the number of threads.

#include "kernels/element/interpolate.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Calls f with tags of the element types of images, weights and places. Weights are of the image's
// type, or floats beside 16 bits.
template <typename F> void dispatchForm(DType image, DType weights, DType places, F f) {
  dispatchFloat(image, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatchInteger(places, [&](auto indexTag) {
      if (weights == image)
        f(tag, tag, indexTag);
      else if constexpr (sizeof(T) == 2)
        f(tag, TypeTag<float>(), indexTag);
    });
  });
}

constexpr int64_t kPiece = 128; // of sums, on the stack

// --- interpolate: rows of `inner` elements, or points where that is one

template <typename T, typename W, typename I>
void interpolate(const Form &f, const T *x, const I *at, const W *w, T *y) {
  int64_t grain = kGrain / std::max<int64_t>(1, f.taps * f.inner) + 1;
  parallelFor(f.batch * f.channels * f.points, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t plane = row / f.points, point = row % f.points;
      int64_t first = f.placesOf(plane / f.channels) + point * f.taps;
      const T *image = x + plane * f.size * f.inner;
      for (int64_t from = 0; from < f.inner; from += kPiece) {
        int64_t n = std::min(kPiece, f.inner - from);
        double sums[kPiece] = {};
        for (int64_t k = first; k < first + f.taps; ++k) {
          if (at[k] < 0 || at[k] >= f.size)
            continue;
          const T *source = image + at[k] * f.inner + from;
          double weight = double(w[k]);
          for (int64_t i = 0; i < n; ++i)
            sums[i] += weight * double(source[i]);
        }
        for (int64_t i = 0; i < n; ++i)
          y[row * f.inner + from + i] = converted<T>(sums[i]);
      }
    }
  });
}

void runInterpolate(const OpCall &call, const KernelArgs &args) {
  Form f(call.operands[0], call.results[0], call.operands[1]);
  dispatchForm(call.operands[0].dtype, call.operands[2].dtype, call.operands[1].dtype,
               [&](auto tag, auto weightTag, auto indexTag) {
                 using T = typename decltype(tag)::type;
                 using W = typename decltype(weightTag)::type;
                 using I = typename decltype(indexTag)::type;
                 interpolate(f, operand<T>(args, 0), operand<I>(args, 1), operand<W>(args, 2),
                             result<T>(args, 0));
               });
}

// --- interpolate_transpose: first, in the workspace, the taps of each place; then each element of
// the result is one sum over its taps.

struct TapLists {
  int32_t *starts; // for each image: size + 1 of them
  int32_t *taps;   // for each image: its points * taps, ordered by place

  static int64_t bytes(const Form &f) {
    int64_t images = f.shared ? 1 : f.batch;
    return images * (f.size + 1 + f.points * f.taps) * int64_t(sizeof(int32_t));
  }

  TapLists(const Form &f, void *workspace)
      : starts(static_cast<int32_t *>(workspace)),
        taps(starts + (f.shared ? 1 : f.batch) * (f.size + 1)) {}

  // Counting sort, which keeps the order of taps at one place.
  template <typename I> void fill(const Form &f, const I *at) {
    parallelFor(f.shared ? 1 : f.batch, 1, [&](int64_t begin, int64_t end) {
      for (int64_t n = begin; n < end; ++n) {
        const I *places = at + f.placesOf(n);
        int32_t *start = starts + n * (f.size + 1), *list = taps + f.placesOf(n);
        std::fill_n(start, f.size + 1, 0);
        auto inside = [&](I place) { return place >= 0 && place < f.size; };
        for (int64_t k = 0; k < f.points * f.taps; ++k)
          if (inside(places[k]))
            ++start[places[k] + 1];
        for (int64_t s = 0; s < f.size; ++s)
          start[s + 1] += start[s];
        for (int64_t k = 0; k < f.points * f.taps; ++k)
          if (inside(places[k]))
            list[start[places[k]]++] = int32_t(k);
        // Each start has moved to the next one's place.
        for (int64_t s = f.size; s > 0; --s)
          start[s] = start[s - 1];
        if (f.size > 0)
          start[0] = 0;
      }
    });
  }
};

template <typename T, typename W, typename I>
void interpolateTranspose(const Form &f, const T *g, const I *at, const W *w, T *x,
                          void *workspace) {
  TapLists lists(f, workspace);
  lists.fill(f, at);
  parallelFor(f.batch * f.channels * f.size, kGrain / std::max<int64_t>(1, f.inner) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t row = begin; row < end; ++row) {
                  int64_t plane = row / f.size, place = row % f.size, n = plane / f.channels;
                  const int32_t *start = lists.starts + (f.shared ? 0 : n * (f.size + 1)) + place;
                  const int32_t *taps = lists.taps + f.placesOf(n);
                  const W *weights = w + f.placesOf(n);
                  const T *image = g + plane * f.points * f.inner;
                  for (int64_t from = 0; from < f.inner; from += kPiece) {
                    int64_t count = std::min(kPiece, f.inner - from);
                    double sums[kPiece] = {};
                    for (int32_t t = start[0]; t < start[1]; ++t) {
                      const T *source = image + taps[t] / f.taps * f.inner + from;
                      double weight = double(weights[taps[t]]);
                      for (int64_t i = 0; i < count; ++i)
                        sums[i] += weight * double(source[i]);
                    }
                    for (int64_t i = 0; i < count; ++i)
                      x[row * f.inner + from + i] = converted<T>(sums[i]);
                  }
                }
              });
}

class TransposeKernel : public PreparedKernel {
public:
  explicit TransposeKernel(const OpCall &call)
      : form_(call.results[0], call.operands[0], call.operands[1]), image_(call.operands[0].dtype),
        weights_(call.operands[2].dtype), places_(call.operands[1].dtype) {}
  int64_t workspaceBytes() const override { return TapLists::bytes(form_); }
  void run(const KernelArgs &args) override {
    dispatchForm(image_, weights_, places_, [&](auto tag, auto weightTag, auto indexTag) {
      using T = typename decltype(tag)::type;
      using W = typename decltype(weightTag)::type;
      using I = typename decltype(indexTag)::type;
      interpolateTranspose(form_, operand<T>(args, 0), operand<I>(args, 1), operand<W>(args, 2),
                           result<T>(args, 0), args.workspace);
    });
  }

private:
  Form form_;
  DType image_, weights_, places_;
};

std::unique_ptr<PreparedKernel> prepareTranspose(const OpCall &call, const KernelOptions &options) {
  return std::make_unique<ThreadedKernel>(std::make_unique<TransposeKernel>(call), options.threads);
}

// --- interpolate_weights: for each tap a sum over channels, and images where they share it

template <typename T, typename W, typename I>
void interpolateWeights(const Form &f, const T *g, const T *x, const I *at, W *w) {
  int64_t images = f.shared ? f.batch : 1, work = images * f.channels * f.inner;
  parallelFor((f.shared ? 1 : f.batch) * f.points * f.taps, kGrain / std::max<int64_t>(1, work) + 1,
              [&](int64_t begin, int64_t end) {
                for (int64_t tap = begin; tap < end; ++tap) {
                  double sum = 0;
                  int64_t place = int64_t(at[tap]), point = tap / f.taps % f.points;
                  int64_t first = f.shared ? 0 : tap / (f.points * f.taps);
                  bool inside = place >= 0 && place < f.size;
                  for (int64_t plane = first * f.channels;
                       inside && plane < (first + images) * f.channels; ++plane) {
                    const T *from = x + (plane * f.size + place) * f.inner;
                    const T *up = g + (plane * f.points + point) * f.inner;
                    for (int64_t i = 0; i < f.inner; ++i)
                      sum += double(up[i]) * double(from[i]);
                  }
                  w[tap] = converted<W>(sum);
                }
              });
}

void runInterpolateWeights(const OpCall &call, const KernelArgs &args) {
  Form f(call.operands[1], call.operands[0], call.operands[2]);
  dispatchForm(call.operands[0].dtype, call.results[0].dtype, call.operands[2].dtype,
               [&](auto tag, auto weightTag, auto indexTag) {
                 using T = typename decltype(tag)::type;
                 using W = typename decltype(weightTag)::type;
                 using I = typename decltype(indexTag)::type;
                 interpolateWeights(f, operand<T>(args, 0), operand<T>(args, 1),
                                    operand<I>(args, 2), result<W>(args, 0));
               });
}

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainInterpolate(KernelTable &table) {
  using namespace plain;
  table.add({"interpolate", "plain", prepareThreaded<runInterpolate>});
  table.add({"interpolate_transpose", "plain", prepareTranspose});
  table.add({"interpolate_weights", "plain", prepareThreaded<runInterpolateWeights>});
}

} // namespace isthmus
