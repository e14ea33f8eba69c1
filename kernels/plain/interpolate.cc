// Weighted sums of elements whose positions are operands. Sums are in double, in the order of
// points and taps, for any number of threads.

#include "kernels/element/interpolate.h"
#include "kernels/plain/dispatch.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// Calls f with tags of the element types of images, weights and positions. Weights have the images'
// type, or are f32 for 16-bit images.
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

// Rows of `inner` elements are summed in pieces that fit on the stack.
constexpr int64_t kPiece = 128;

// A term of the sum that makes one row of a result. A null source means that the term is omitted.
template <typename T> struct Term {
  const T *source;
  double weight;
};

template <typename T, typename F> void sumTerms(int64_t count, int64_t inner, F term, T *to) {
  if (inner == 1) {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i)
      if (const Term<T> t = term(i); t.source)
        sum += t.weight * double(*t.source);
    *to = converted<T>(sum);
    return;
  }
  double sums[kPiece];
  for (int64_t from = 0; from < inner; from += kPiece) {
    const int64_t n = std::min(kPiece, inner - from);
    std::fill_n(sums, n, 0.0);
    for (int64_t i = 0; i < count; ++i)
      if (const Term<T> t = term(i); t.source)
        for (int64_t j = 0; j < n; ++j)
          sums[j] += t.weight * double(t.source[from + j]);
    for (int64_t j = 0; j < n; ++j)
      to[from + j] = converted<T>(sums[j]);
  }
}

// Calls f(plane, begin, end) for rows [begin, end) of each plane of `rows` rows, distributed over
// the threads; `elements` is the work per row.
template <typename F> void forRows(int64_t planes, int64_t rows, int64_t elements, F f) {
  parallelFor(planes * rows, kGrain / std::max<int64_t>(1, elements) + 1,
              [&](int64_t begin, int64_t end) {
                vectorised([&] {
                  for (int64_t at = begin; at < end;) {
                    const int64_t plane = at / rows, last = std::min(end, (plane + 1) * rows);
                    f(plane, at - plane * rows, last - plane * rows);
                    at = last;
                  }
                });
              });
}

// --- interpolate

template <typename T, typename W, typename I>
void interpolate(const Form &f, const T *x, const I *at, const W *w, T *y) {
  forRows(f.batch * f.channels, f.points, f.taps * f.inner,
          [&](int64_t plane, int64_t begin, int64_t end) {
            const int64_t first = f.placesOf(plane / f.channels);
            const T *image = x + plane * f.size * f.inner;
            for (int64_t point = begin; point < end; ++point) {
              const I *places = at + first + point * f.taps;
              const W *weights = w + first + point * f.taps;
              auto term = [&](int64_t k) -> Term<T> {
                if (places[k] < 0 || places[k] >= f.size)
                  return {nullptr, 0};
                return {image + places[k] * f.inner, double(weights[k])};
              };
              sumTerms(f.taps, f.inner, term, y + (plane * f.points + point) * f.inner);
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

// --- interpolate_transpose: first lists, in the workspace, the taps at each position; then each
// element of the result is one sum over its taps.

struct TapLists {
  int32_t *starts; // per image: size + 1 offsets
  int32_t *taps;   // per image: points * taps tap indices, ordered by position

  static int64_t bytes(const Form &f) {
    int64_t images = f.shared ? 1 : f.batch;
    return images * (f.size + 1 + f.points * f.taps) * int64_t(sizeof(int32_t));
  }

  TapLists(const Form &f, void *workspace)
      : starts(static_cast<int32_t *>(workspace)),
        taps(starts + (f.shared ? 1 : f.batch) * (f.size + 1)) {}

  // A counting sort, which keeps the order of taps at one position.
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
        // Filling has advanced each start to the next position's start; shifts them back.
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
  forRows(f.batch * f.channels, f.size, f.inner, [&](int64_t plane, int64_t begin, int64_t end) {
    const int64_t n = plane / f.channels;
    const int32_t *starts = lists.starts + (f.shared ? 0 : n * (f.size + 1));
    const int32_t *taps = lists.taps + f.placesOf(n);
    const W *weights = w + f.placesOf(n);
    const T *image = g + plane * f.points * f.inner;
    const int32_t perPoint = int32_t(f.taps); // 32-bit division takes half the time
    for (int64_t place = begin; place < end; ++place) {
      const int32_t *tap = taps + starts[place];
      auto term = [&](int64_t i) -> Term<T> {
        return {image + int64_t(tap[i] / perPoint) * f.inner, double(weights[tap[i]])};
      };
      sumTerms(starts[place + 1] - starts[place], f.inner, term,
               x + (plane * f.size + place) * f.inner);
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

// --- interpolate_weights: each tap is a sum over channels, and over images if they share the
// weights

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
