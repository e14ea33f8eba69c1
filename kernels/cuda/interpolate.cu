// Weighted sums of elements whose positions are operands, in the order of points and taps.

#include "kernels/cuda/reduce.h"
#include "kernels/cuda/register.h"
#include "kernels/cuda/scatter.h"
#include "kernels/element/indexing.h"
#include "kernels/element/interpolate.h"

namespace isthmus::cuda {
namespace {

// Calls f with tags of the element types of images and weights. Weights have the images' type, or
// are f32 for 16-bit images.
template <typename F> void dispatchForm(DType image, DType weights, F f) {
  dispatchFloat(image, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (weights == image)
      f(tag, tag);
    else if constexpr (sizeof(T) == 2)
      f(tag, TypeTag<float>());
  });
}

// --- interpolate

template <typename T, typename W>
void interpolate(const Queue &queue, const Form &f, const T *x, Indices at, const W *w, T *y) {
  using S = GpuSum<T>;
  Divisor byInner(f.inner), byPoints(f.points), byChannels(f.channels);
  forEach(queue, f.batch * f.channels * f.points * f.inner, [=] ISTHMUS_GPU(int64_t i) {
    int64_t j, point, channel;
    int64_t plane = byPoints(byInner(i, &j), &point), image = byChannels(plane, &channel);
    const T *from = x + plane * f.size * f.inner + j;
    int64_t first = f.placesOf(image) + point * f.taps;
    S sum = 0;
    for (int64_t k = first; k < first + f.taps; ++k)
      if (int64_t place = at[k]; place >= 0 && place < f.size)
        sum += S(w[k]) * S(from[place * f.inner]);
    y[i] = T(sum);
  });
}

void runInterpolate(const Launch &l) {
  Form f(l.call.operands[0], l.call.results[0], l.call.operands[1]);
  dispatchForm(l.call.operands[0].dtype, l.call.operands[2].dtype, [&](auto tag, auto weightTag) {
    using T = typename decltype(tag)::type;
    using W = typename decltype(weightTag)::type;
    interpolate(l.queue, f, l.operand<T>(0), Indices(l.args.operands[1], l.call.operands[1].dtype),
                l.operand<W>(2), l.result<T>(0));
  });
}

// --- interpolate_transpose: first lists, in the workspace, the taps at each position; then each
// element of the result is one sum over its taps.

Form transposedForm(const OpCall &call) {
  return Form(call.results[0], call.operands[0], call.operands[1]);
}

struct TapLists {
  int64_t images, each; // each: taps per image
  int64_t *targets;
  Place *taps;   // per image: `placesFor(each)` taps, ordered by position
  Place *starts; // per image: size + 1 offsets
  int64_t bytes;

  TapLists(const Form &f, void *workspace)
      : images(f.shared ? 1 : f.batch), each(f.points * f.taps),
        targets(static_cast<int64_t *>(workspace)),
        taps(reinterpret_cast<Place *>(targets + images * each)),
        starts(taps + images * placesFor(each)),
        bytes(images * (each * int64_t(sizeof(int64_t)) +
                        (placesFor(each) + f.size + 1) * int64_t(sizeof(Place)))) {}
};
int64_t transposeBytes(const OpCall &call) { return TapLists(transposedForm(call), nullptr).bytes; }

void fillLists(const Queue &queue, const TapLists &lists, int64_t size, Indices at) {
  int64_t each = lists.each, places = placesFor(each);
  int64_t *targets = lists.targets;
  forEach(queue, lists.images * each, [=] ISTHMUS_GPU(int64_t k) {
    int64_t place = at[k];
    targets[k] = place >= 0 && place < size ? place : -1;
  });
  sortByTarget(queue, lists.images, each, targets, lists.taps);
  Place *taps = lists.taps, *starts = lists.starts;
  // Thread p of an image sets the starts of all positions after that of tap p - 1, up to that of
  // tap p.
  forEach(queue, lists.images * (each + 1), [=] ISTHMUS_GPU(int64_t i) {
    int64_t image = i / (each + 1), p = i % (each + 1);
    auto placeOf = [&](int64_t p) {
      int64_t target = targets[image * each + taps[image * places + p]];
      return target < 0 ? size : target;
    };
    int64_t last = p == each ? size : placeOf(p);
    for (int64_t s = p == 0 ? 0 : placeOf(p - 1) + 1; s <= last; ++s)
      starts[image * (size + 1) + s] = Place(p);
  });
}

template <typename T, typename W>
void interpolateTranspose(const Queue &queue, const Form &f, const TapLists &lists, const T *g,
                          const W *w, T *x) {
  using S = GpuSum<T>;
  Divisor byInner(f.inner), bySize(f.size), byChannels(f.channels), byTaps(f.taps);
  const Place *taps = lists.taps, *starts = lists.starts;
  int64_t places = placesFor(lists.each);
  forEach(queue, f.batch * f.channels * f.size * f.inner, [=] ISTHMUS_GPU(int64_t i) {
    int64_t j, place, channel;
    int64_t plane = bySize(byInner(i, &j), &place), image = byChannels(plane, &channel);
    int64_t list = f.shared ? 0 : image;
    const Place *start = starts + list * (f.size + 1) + place, *tap = taps + list * places;
    const T *from = g + plane * f.points * f.inner + j;
    const W *weight = w + f.placesOf(image);
    S sum = 0;
    for (int64_t t = start[0]; t < start[1]; ++t) {
      int64_t rest, point = byTaps(tap[t], &rest);
      sum += S(weight[tap[t]]) * S(from[point * f.inner]);
    }
    x[i] = T(sum);
  });
}

void runInterpolateTranspose(const Launch &l) {
  Form f = transposedForm(l.call);
  TapLists lists(f, l.args.workspace);
  fillLists(l.queue, lists, f.size, Indices(l.args.operands[1], l.call.operands[1].dtype));
  dispatchForm(l.call.operands[0].dtype, l.call.operands[2].dtype, [&](auto tag, auto weightTag) {
    using T = typename decltype(tag)::type;
    using W = typename decltype(weightTag)::type;
    interpolateTranspose(l.queue, f, lists, l.operand<T>(0), l.operand<W>(2), l.result<T>(0));
  });
}

// --- interpolate_weights: each tap is a sum over channels, and over images if they share the
// weights

template <typename T, typename W> struct WeightSum {
  Form f;
  const T *g, *x;
  Indices at;
  W *w;
  Divisor byTaps, byPoints, byInner;

  template <typename Worker> ISTHMUS_GPU void operator()(int64_t tap, const Worker &worker) const {
    using S = GpuSum<T>;
    int64_t rest, point, place = at[tap], image = byPoints(byTaps(tap, &rest), &point);
    bool inside = place >= 0 && place < f.size;
    int64_t planes = (f.shared ? f.batch : 1) * f.channels;
    const T *from = x + (image * f.channels * f.size + place) * f.inner;
    const T *up = g + (image * f.channels * f.points + point) * f.inner;
    S sum = worker.reduce(
        inside ? planes * f.inner : 0, S(0),
        [&](S s, int64_t i) {
          int64_t j, plane = byInner(i, &j);
          return s + S(up[plane * f.points * f.inner + j]) * S(from[plane * f.size * f.inner + j]);
        },
        [](S a, S b) { return a + b; });
    if (worker.isFirst())
      w[tap] = W(sum);
  }
};

void runInterpolateWeights(const Launch &l) {
  Form f(l.call.operands[1], l.call.operands[0], l.call.operands[2]);
  int64_t taps = l.call.results[0].elements();
  int64_t length = (f.shared ? f.batch : 1) * f.channels * f.inner;
  // If rows are short, each tap gets a single thread: neighbouring threads then read neighbouring
  // points, if not neighbouring positions.
  bool alone = f.inner < 32 && taps >= 4096;
  dispatchForm(l.call.operands[0].dtype, l.call.results[0].dtype, [&](auto tag, auto weightTag) {
    using T = typename decltype(tag)::type;
    using W = typename decltype(weightTag)::type;
    forEachWorker(l.queue, alone, taps, length,
                  WeightSum<T, W>{f, l.operand<T>(0), l.operand<T>(1),
                                  Indices(l.args.operands[2], l.call.operands[2].dtype),
                                  l.result<W>(0), Divisor(f.taps), Divisor(f.points),
                                  Divisor(f.inner)});
  });
}

} // namespace

void registerInterpolate(KernelTable &table) {
  table.add({"interpolate", "cuda", prepareGrid<runInterpolate>});
  table.add(
      {"interpolate_transpose", "cuda", prepareGrid<runInterpolateTranspose, transposeBytes>});
  table.add({"interpolate_weights", "cuda", prepareGrid<runInterpolateWeights>});
}

} // namespace isthmus::cuda
