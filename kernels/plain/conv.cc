// Convolutions as loops over taps and channels around a loop along a row, which the compiler
// vectorises. Sums are in double, in an order that depends on neither the number of threads, the
// vector width nor the layout.

#include "kernels/plain/by_type.h"
#include "kernels/element/conv_shape.h"
#include "kernels/plain/register.h"

namespace isthmus::plain {
namespace {

// A row is processed in pieces whose sums fit on the stack, for a few channels at once, so that
// they share the loaded inputs.
constexpr int64_t kPiece = 128;
constexpr int64_t kAtOnce = 4;
using Sums = double[kAtOnce][kPiece];

// sum[i * sumStep] += weight * x[i * xStep]. Unit steps have a loop of their own.
template <typename T>
void addScaled(double *sum, int64_t sumStep, const T *x, int64_t xStep, double weight, int64_t n) {
  if (sumStep == 1 && xStep == 1)
    for (int64_t i = 0; i < n; ++i)
      sum[i] += weight * double(x[i]);
  else
    for (int64_t i = 0; i < n; ++i)
      sum[i * sumStep] += weight * double(x[i * xStep]);
}

struct Shape : ConvShape {
  ConvSteps steps;

  explicit Shape(const OpCall &call) : Shape(flattened(convShape(call)), *call.attrs) {}
  Shape(const ConvShape &s, const Attrs &attrs) : ConvShape(s), steps(s, isChannelsLast(attrs)) {}
};

// --- conv: one piece of the output row (od, oh), for `count` output channels.

template <typename T>
void convPiece(const Shape &s, const T *x, const T *w, int64_t count, int64_t od, int64_t oh,
               int64_t from, int64_t to, Sums &sums) {
  const ImageSteps &xAt = s.steps.x, &wAt = s.steps.w;
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
      int64_t d = s.position(0, od, kd), h = s.position(1, oh, kh);
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1])
        continue;
      for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
        auto [low, high] = s.places(2, kw);
        low = std::max(low, from);
        int64_t n = std::min(high, to) - low;
        const T *src = x + xAt.place(d, h, s.position(2, low, kw));
        const T *tap = w + wAt.place(kd, kh, kw);
        for (int64_t c = 0; c < s.groupChannels() && n > 0; ++c)
          for (int64_t j = 0; j < count; ++j)
            addScaled(&sums[j][low - from], 1, src + c * xAt.channel, s.stride[2] * xAt.at[2],
                      double(tap[j * wAt.image + c * wAt.channel]), n);
      }
    }
}

// --- conv_transpose: one piece of the result's row (d, h), for `count` of its channels.

template <typename T>
void transposePiece(const Shape &s, const T *g, const T *w, int64_t count, int64_t d, int64_t h,
                    int64_t from, int64_t to, Sums &sums) {
  const ImageSteps &yAt = s.steps.y, &wAt = s.steps.w;
  for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < s.kernel[1]; ++kh) {
      int64_t atD = d + s.pad[0] - kd * s.dilation[0], od = atD / s.stride[0];
      int64_t atH = h + s.pad[1] - kh * s.dilation[1], oh = atH / s.stride[1];
      if (atD < 0 || atD % s.stride[0] != 0 || od >= s.out[0] || atH < 0 ||
          atH % s.stride[1] != 0 || oh >= s.out[1])
        continue;
      for (int64_t kw = 0; kw < s.kernel[2]; ++kw) {
        // Positions of g that tap kw maps into [from, to).
        int64_t shift = s.pad[2] - kw * s.dilation[2], stride = s.stride[2];
        int64_t low = from + shift <= 0 ? 0 : (from + shift + stride - 1) / stride;
        int64_t high = to - 1 + shift < 0 ? 0 : std::min(s.out[2], (to - 1 + shift) / stride + 1);
        const T *src = g + yAt.place(od, oh, low);
        const T *tap = w + wAt.place(kd, kh, kw);
        for (int64_t o = 0; o < s.groupOutChannels() && low < high; ++o)
          for (int64_t j = 0; j < count; ++j)
            addScaled(&sums[j][low * stride - shift - from], stride, src + o * yAt.channel,
                      yAt.at[2], double(tap[o * wAt.image + j * wAt.channel]), high - low);
      }
    }
}

// --- conv_weight_grad: one tap, for `count` output channels. Element i of a row is added to
// partial sum i % 8. Neighbours in a row of g are `apart` elements apart: the constant one or a
// runtime value.

constexpr int64_t kLanes = 8;

template <typename T, typename Apart>
void weightTap(const Shape &s, const T *g, const T *x, int64_t count, const int64_t (&k)[3],
               Apart apart, double (&lanes)[kAtOnce][kLanes]) {
  const ImageSteps &xAt = s.steps.x, &yAt = s.steps.y;
  auto [lowD, highD] = s.places(0, k[0]);
  auto [lowH, highH] = s.places(1, k[1]);
  auto [lowW, highW] = s.places(2, k[2]);
  int64_t n = highW - lowW, whole = n / kLanes * kLanes, stride = s.stride[2] * xAt.at[2];
  for (int64_t od = lowD; od < highD; ++od)
    for (int64_t oh = lowH; oh < highH; ++oh) {
      const T *row = x + xAt.place(s.position(0, od, k[0]), s.position(1, oh, k[1]),
                                   s.position(2, lowW, k[2]));
      for (int64_t j = 0; j < count; ++j) {
        const T *up = g + j * yAt.channel + yAt.place(od, oh, lowW);
        double sum[kLanes];
        for (int64_t l = 0; l < kLanes; ++l)
          sum[l] = lanes[j][l];
        for (int64_t i = 0; i < whole; i += kLanes)
          for (int64_t l = 0; l < kLanes; ++l)
            sum[l] += double(up[(i + l) * apart]) * double(row[(i + l) * stride]);
        for (int64_t i = whole; i < n; ++i)
          sum[i - whole] += double(up[i * apart]) * double(row[i * stride]);
        for (int64_t l = 0; l < kLanes; ++l)
          lanes[j][l] = sum[l];
      }
    }
}

// --- Kernels

void clear(Sums &sums, int64_t n) {
  for (auto &row : sums)
    std::fill(row, row + n, 0.0);
}

struct Conv {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Shape s(call);
    const ImageSteps &xAt = s.steps.x, &yAt = s.steps.y, &wAt = s.steps.w;
    auto *x = operand<T>(args, 0), *w = operand<T>(args, 1);
    const T *bias = call.operands.size() > 2 ? operand<T>(args, 2) : nullptr;
    auto *y = result<T>(args, 0);
    int64_t perGroup = s.groupOutChannels(), blocks = (perGroup + kAtOnce - 1) / kAtOnce;
#pragma omp parallel for collapse(4) schedule(static)
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t g = 0; g < s.groups; ++g)
        for (int64_t b = 0; b < blocks; ++b)
          for (int64_t r = 0; r < s.out[0] * s.out[1]; ++r) {
            int64_t count = std::min(kAtOnce, perGroup - b * kAtOnce),
                    o = g * perGroup + b * kAtOnce;
            Sums sums;
            for (int64_t from = 0; from < s.out[2]; from += kPiece) {
              int64_t to = std::min(from + kPiece, s.out[2]);
              clear(sums, to - from);
              vectorised([&] {
                convPiece(s, x + n * xAt.image + g * s.groupChannels() * xAt.channel,
                          w + o * wAt.image, count, r / s.out[1], r % s.out[1], from, to, sums);
              });
              for (int64_t j = 0; j < count; ++j) {
                T *row = y + n * yAt.image + (o + j) * yAt.channel + r * yAt.at[1];
                double add = bias ? double(bias[o + j]) : 0;
                for (int64_t i = from; i < to; ++i)
                  row[i * yAt.at[2]] = converted<T>(sums[j][i - from] + add);
              }
            }
          }
  }
};

struct ConvTranspose {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Shape s(call);
    const ImageSteps &xAt = s.steps.x, &yAt = s.steps.y, &wAt = s.steps.w;
    auto *g = operand<T>(args, 0), *w = operand<T>(args, 1);
    const T *bias = call.operands.size() > 2 ? operand<T>(args, 2) : nullptr;
    auto *x = result<T>(args, 0);
    int64_t perGroup = s.groupChannels(), blocks = (perGroup + kAtOnce - 1) / kAtOnce;
#pragma omp parallel for collapse(4) schedule(static)
    for (int64_t n = 0; n < s.batch; ++n)
      for (int64_t group = 0; group < s.groups; ++group)
        for (int64_t b = 0; b < blocks; ++b)
          for (int64_t r = 0; r < s.in[0] * s.in[1]; ++r) {
            int64_t count = std::min(kAtOnce, perGroup - b * kAtOnce),
                    c = group * perGroup + b * kAtOnce;
            int64_t o = group * s.groupOutChannels();
            Sums sums;
            for (int64_t from = 0; from < s.in[2]; from += kPiece) {
              int64_t to = std::min(from + kPiece, s.in[2]);
              clear(sums, to - from);
              vectorised([&] {
                transposePiece(s, g + n * yAt.image + o * yAt.channel,
                               w + o * wAt.image + b * kAtOnce * wAt.channel, count, r / s.in[1],
                               r % s.in[1], from, to, sums);
              });
              for (int64_t j = 0; j < count; ++j) {
                T *row = x + n * xAt.image + (c + j) * xAt.channel + r * xAt.at[1];
                double add = bias ? double(bias[c + j]) : 0;
                for (int64_t i = from; i < to; ++i)
                  row[i * xAt.at[2]] = converted<T>(sums[j][i - from] + add);
              }
            }
          }
  }
};

struct ConvWeightGrad {
  template <typename T> static void run(const OpCall &call, const KernelArgs &args) {
    const Shape s(call);
    const ImageSteps &xAt = s.steps.x, &yAt = s.steps.y, &wAt = s.steps.w;
    auto *g = operand<T>(args, 0), *x = operand<T>(args, 1);
    auto *w = result<T>(args, 0);
    int64_t perGroup = s.groupOutChannels(), blocks = (perGroup + kAtOnce - 1) / kAtOnce;
#pragma omp parallel for collapse(3) schedule(static)
    for (int64_t group = 0; group < s.groups; ++group)
      for (int64_t b = 0; b < blocks; ++b)
        for (int64_t c = 0; c < s.groupChannels(); ++c) {
          int64_t count = std::min(kAtOnce, perGroup - b * kAtOnce),
                  o = group * perGroup + b * kAtOnce;
          for (int64_t t = 0; t < s.taps(); ++t) {
            int64_t k[3] = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1],
                            t % s.kernel[2]};
            double lanes[kAtOnce][kLanes] = {};
            vectorised([&] {
              for (int64_t n = 0; n < s.batch; ++n) {
                const T *up = g + n * yAt.image + o * yAt.channel;
                const T *image = x + n * xAt.image + (group * s.groupChannels() + c) * xAt.channel;
                if (yAt.at[2] == 1)
                  weightTap(s, up, image, count, k, std::integral_constant<int64_t, 1>(), lanes);
                else
                  weightTap(s, up, image, count, k, yAt.at[2], lanes);
              }
            });
            for (int64_t j = 0; j < count; ++j) {
              double sum = 0;
              for (double lane : lanes[j])
                sum += lane;
              w[(o + j) * wAt.image + c * wAt.channel + wAt.place(k[0], k[1], k[2])] =
                  converted<T>(sum);
            }
          }
        }
  }
};

} // namespace
} // namespace isthmus::plain

namespace isthmus {

void registerPlainConv(KernelTable &table) {
  using namespace plain;
  table.add({"conv", "plain", prepareThreaded<runFloat<Conv>>});
  table.add({"conv_transpose", "plain", prepareThreaded<runFloat<ConvTranspose>>});
  table.add({"conv_weight_grad", "plain", prepareThreaded<runFloat<ConvWeightGrad>>});
}

} // namespace isthmus
