// Convolutions that oneDNN has no kernel for (few pixels under a large window, groups of odd
// sizes), as matrix products. U is the unfolded input: a row for each channel and tap, a column for
// each pixel of the result. V is the result's side: a row for each output channel. With w as [out
// channels, channels * taps]:
//
//   conv:              V = w U, and y is V
//   conv_transpose:    U = w^T V, and elements of U at the same pixel of x are summed
//   conv_weight_grad:  w = sum V U^T
//
// Rows of pixels are processed a few at a time, as many as fit in the caches, so that U stays
// small. Their number depends on the shape alone, and so do the bits of the result.

#include "kernels/element/conv_shape.h"
#include "kernels/gemm/conv_call.h"
#include "kernels/gemm/register.h"
#include "kernels/gemm/tasks.h"
#include "runtime/kernel.h"

namespace isthmus::gemm {
namespace {

// Limits of U, in floats and columns; beyond them a product gains next to nothing. For weight
// gradients columns are the inner axis, and fewer suffice.
constexpr int64_t kMostFloats = 65536, kMostColumns = 256, kMostInner = 128;

// Copies of fewer floats are not worth a team.
constexpr int64_t kGrain = 16384;

class UnfoldedConv : public PreparedKernel {
public:
  UnfoldedConv(Which which, const OpCall &call, int threads)
      : which_(which), threads_(threads), hasBias_(call.operands.size() > 2), s_(convShape(call)),
        steps_(s_, isChannelsLast(*call.attrs)), taps_(s_.groupChannels() * s_.taps()),
        rows_(s_.batch * s_.out[0] * s_.out[1]) {
    int64_t width = s_.out[2];
    int64_t most =
        std::min(which == Which::WeightGrad ? kMostInner : kMostColumns, kMostFloats / taps_);
    rowsAtOnce_ = std::clamp<int64_t>(most / width, 1, rows_);
    columns_ = rowsAtOnce_ * width;
    unfoldedFloats_ = rounded64(taps_ * columns_);
    sideFloats_ = rounded64(s_.groupOutChannels() * columns_);
    taskFloats_ = unfoldedFloats_ + sideFloats_ + rounded64(packedFloats(sizes(columns_)));
    atOnce_ = std::min<int64_t>(threads, s_.groups);
  }

  int64_t workspaceBytes() const override { return atOnce_ * taskFloats_ * int64_t(sizeof(float)); }

  void run(const KernelArgs &args) override {
    forEachTask(s_.groups, atOnce_, threads_, static_cast<float *>(args.workspace), taskFloats_,
                [&](int64_t group, float *workspace, int threads) {
                  Task task = {*this, args, group, workspace, threads};
                  task.run();
                });
  }

private:
  Sizes sizes(int64_t columns) const {
    int64_t out = s_.groupOutChannels();
    switch (which_) {
    case Which::Forward:
      return {out, columns, taps_};
    case Which::Transpose:
      return {taps_, columns, out};
    case Which::WeightGrad:
      break;
    }
    return {out, taps_, columns};
  }

  // A row of the result's pixels.
  struct Row {
    int64_t image, depth, height;
  };

  // The computation of one group of channels.
  struct Task {
    const UnfoldedConv &conv;
    const KernelArgs &args;
    int64_t group;
    float *unfolded; // U, V and the packing buffer
    int threads;

    const ConvShape &s = conv.s_;
    const ImageSteps &xAt = conv.steps_.x, &yAt = conv.steps_.y;
    float *side = unfolded + conv.unfoldedFloats_, *packed = side + conv.sideFloats_;
    int64_t out = s.groupOutChannels(), taps = conv.taps_, width = s.out[2],
            columns = conv.columns_;
    int64_t xBegin = group * s.groupChannels() * xAt.channel, yBegin = group * out * yAt.channel;

    const float *operand(int i) const {
      return static_cast<const float *>(args.operands[size_t(i)]);
    }
    float *result() const { return static_cast<float *>(args.results[0]); }
    float bias(int64_t channel) const { return conv.hasBias_ ? operand(2)[channel] : 0; }

    void run() {
      if (conv.which_ == Which::Transpose)
        fillWithBias();
      for (int64_t row = 0; row < conv.rows_; row += conv.rowsAtOnce_)
        runRows(row, std::min(row + conv.rowsAtOnce_, conv.rows_));
    }

    void runRows(int64_t begin, int64_t end) {
      const Sizes sizes = conv.sizes((end - begin) * width);
      const int64_t weights = group * out * taps;
      switch (conv.which_) {
      case Which::Forward:
        unfold(operand(0), begin, end);
        multiply(sizes, {operand(1) + weights, taps, 1}, {unfolded, columns, 1}, {side, columns},
                 packed, threads);
        writeSide(begin, end);
        break;
      case Which::Transpose:
        readSide(begin, end);
        multiply(sizes, {operand(1) + weights, 1, taps}, {side, columns, 1}, {unfolded, columns},
                 packed, threads);
        fold(begin, end);
        break;
      case Which::WeightGrad:
        readSide(begin, end);
        unfold(operand(1), begin, end);
        multiply(sizes, {side, columns, 1}, {unfolded, 1, columns},
                 {result() + weights, taps, 0, /*add=*/begin > 0}, packed, threads);
        break;
      }
    }

    // Calls f(row, column) for each row of pixels in [begin, end); `column` is the row's first
    // column in U and V.
    template <typename F> void forRows(int64_t begin, int64_t end, F f) const {
      Row row = {begin / (s.out[0] * s.out[1]), begin / s.out[1] % s.out[0], begin % s.out[1]};
      for (int64_t i = begin; i < end; ++i) {
        f(row, (i - begin) * width);
        if (++row.height < s.out[1])
          continue;
        row.height = 0;
        if (++row.depth < s.out[0])
          continue;
        row.depth = 0;
        ++row.image;
      }
    }

    // Calls f(i) for i in [0, n), distributed over the threads.
    template <typename F> void forEach(int64_t n, F f) const {
#pragma omp parallel for schedule(static)                                                          \
    num_threads(threads) if (threads > 1 && n * columns > kGrain)
      for (int64_t i = 0; i < n; ++i)
        f(i);
    }

    // The channel and kernel position of row `tap` of U. The order is that of the weights: channels
    // are innermost if they are last.
    struct Tap {
      int64_t channel, k[3];
    };
    Tap tapOf(int64_t tap) const {
      const bool last = yAt.channelsLast;
      int64_t t = last ? tap / s.groupChannels() : tap % s.taps();
      return {last ? tap % s.groupChannels() : tap / s.taps(),
              {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]}};
    }

    // The offset in x that the tap reads at pixel `low` of the row; -1 if the tap reads padding
    // along the first two axes.
    int64_t placeOf(const Tap &t, const Row &row, int64_t low) const {
      int64_t d = s.position(0, row.depth, t.k[0]), h = s.position(1, row.height, t.k[1]);
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1])
        return -1;
      return xBegin + row.image * xAt.image + t.channel * xAt.channel +
             xAt.place(d, h, s.position(2, low, t.k[2]));
    }

    void unfold(const float *x, int64_t begin, int64_t end) const {
      const int64_t step = s.stride[2] * xAt.at[2];
      forEach(taps, [&](int64_t tap) {
        const Tap t = tapOf(tap);
        const auto [low, high] = s.places(2, t.k[2]);
        forRows(begin, end, [&, low = low, high = high](const Row &row, int64_t column) {
          float *to = unfolded + tap * columns + column;
          const int64_t at = low < high ? placeOf(t, row, low) : -1;
          if (at < 0) {
            std::fill(to, to + width, 0.0f);
            return;
          }
          std::fill(to, to + low, 0.0f);
          for (int64_t i = low; i < high; ++i)
            to[i] = x[at + (i - low) * step];
          std::fill(to + high, to + width, 0.0f);
        });
      });
    }

    // Adds U to x. One thread adds all taps of a channel, in order.
    void fold(int64_t begin, int64_t end) const {
      const int64_t step = s.stride[2] * xAt.at[2], channels = s.groupChannels();
      float *x = result();
      forEach(channels, [&](int64_t channel) {
        for (int64_t i = 0; i < s.taps(); ++i) {
          const int64_t tap = yAt.channelsLast ? i * channels + channel : channel * s.taps() + i;
          const Tap t = tapOf(tap);
          const auto [low, high] = s.places(2, t.k[2]);
          if (low < high)
            forRows(begin, end, [&, low = low, high = high](const Row &row, int64_t column) {
              const float *from = unfolded + tap * columns + column;
              if (const int64_t at = placeOf(t, row, low); at >= 0)
                for (int64_t j = low; j < high; ++j)
                  x[at + (j - low) * step] += from[j];
            });
        }
      });
    }

    void fillWithBias() const {
      const int64_t channels = s.groupChannels();
      forEach(channels, [&](int64_t channel) {
        const float value = bias(group * channels + channel);
        for (int64_t n = 0; n < s.batch; ++n) {
          float *to = result() + xBegin + n * xAt.image + channel * xAt.channel;
          for (int64_t i = 0; i < s.inPlane(); ++i)
            to[i * xAt.at[2]] = value;
        }
      });
    }

    // Calls f(offset in y, offset in V) for each pixel of a channel's rows.
    template <typename F> void forSide(int64_t channel, int64_t begin, int64_t end, F f) const {
      forRows(begin, end, [&](const Row &row, int64_t column) {
        const int64_t at = yBegin + row.image * yAt.image + channel * yAt.channel +
                           yAt.place(row.depth, row.height, 0);
        for (int64_t i = 0; i < width; ++i)
          f(at + i * yAt.at[2], channel * columns + column + i);
      });
    }

    void readSide(int64_t begin, int64_t end) const {
      const float *y = operand(0);
      forEach(out, [&](int64_t channel) {
        forSide(channel, begin, end, [&](int64_t from, int64_t to) { side[to] = y[from]; });
      });
    }

    void writeSide(int64_t begin, int64_t end) const {
      float *y = result();
      forEach(out, [&](int64_t channel) {
        const float add = bias(group * out + channel);
        forSide(channel, begin, end, [&](int64_t to, int64_t from) { y[to] = side[from] + add; });
      });
    }
  };

  Which which_;
  int threads_;
  bool hasBias_;
  ConvShape s_;
  ConvSteps steps_;
  int64_t taps_; // taps of all channels of a group: rows of U
  int64_t rows_; // rows of pixels in all images
  int64_t rowsAtOnce_, columns_, unfoldedFloats_, sideFloats_, taskFloats_, atOnce_;
};

// Measured against the plain kernels. Groups of few channels fill the register tile badly, but for
// weight gradients the plain sums over rows of few pixels are slower still.
bool isWorthwhile(Which which, const ConvShape &s) {
  return s.groupChannels() * s.groupOutChannels() >= 16 ||
         (which == Which::WeightGrad && s.taps() > 1 && s.out[2] <= 8);
}

template <Which which>
std::unique_ptr<PreparedKernel> prepareUnfolded(const OpCall &call, const KernelOptions &options) {
  if (!isProduct(call) || !isWorthwhile(which, convShape(call)))
    return nullptr;
  return std::make_unique<UnfoldedConv>(which, call, options.threads);
}

} // namespace
} // namespace isthmus::gemm

namespace isthmus {

void registerUnfoldedConv(KernelTable &table) {
  table.add({"conv", "unfolded", gemm::prepareUnfolded<gemm::Which::Forward>});
  table.add({"conv_transpose", "unfolded", gemm::prepareUnfolded<gemm::Which::Transpose>});
  table.add({"conv_weight_grad", "unfolded", gemm::prepareUnfolded<gemm::Which::WeightGrad>});
}

} // namespace isthmus
