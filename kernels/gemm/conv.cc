// Convolutions of kernel size one without stride or padding, as matrix products on the tensors in
// place: no copies to other layouts, and almost no workspace. With x [N, C, P] and w [O, C]:
//
//   conv:              y[n] = w x[n]          columns run over the pixels of all images
//   conv_transpose:    x[n] = w^T g[n]        the same
//   conv_weight_grad:  w = sum g[n] x[n]^T    the inner axis runs over the pixels of all images

#include "kernels/element/conv_shape.h"
#include "kernels/gemm/conv_call.h"
#include "kernels/gemm/register.h"
#include "kernels/plain/parallel.h"

namespace isthmus::gemm {
namespace {

class PointwiseConv : public PreparedKernel {
public:
  PointwiseConv(Which which, const ConvShape &s, bool hasBias, int threads)
      : which_(which), threads_(threads), hasBias_(hasBias), batch_(s.batch), channels_(s.channels),
        outChannels_(s.outChannels), pixels_(s.inPlane()) {
    if (which == Which::WeightGrad)
      sizes_ = {outChannels_, channels_, batch_ * pixels_, 0, pixels_};
    else if (which == Which::Forward)
      sizes_ = {outChannels_, batch_ * pixels_, channels_, pixels_, 0};
    else
      sizes_ = {channels_, batch_ * pixels_, outChannels_, pixels_, 0};
  }

  int64_t workspaceBytes() const override { return packedFloats(sizes_) * int64_t(sizeof(float)); }

  void run(const KernelArgs &args) override {
    auto *first = static_cast<const float *>(args.operands[0]);
    auto *second = static_cast<const float *>(args.operands[1]);
    auto *to = static_cast<float *>(args.results[0]),
         *packed = static_cast<float *>(args.workspace);
    int64_t image = channels_ * pixels_, outImage = outChannels_ * pixels_;
    switch (which_) {
    case Which::Forward:
      multiply(sizes_, {second, channels_, 1}, {first, pixels_, 1, image}, {to, pixels_, outImage},
               packed, threads_);
      break;
    case Which::Transpose:
      multiply(sizes_, {second, 1, channels_}, {first, pixels_, 1, outImage}, {to, pixels_, image},
               packed, threads_);
      break;
    case Which::WeightGrad:
      multiply(sizes_, {first, pixels_, 1, outImage}, {second, 1, pixels_, image}, {to, channels_},
               packed, threads_);
      break;
    }
    if (hasBias_)
      addBias(static_cast<const float *>(args.operands[2]), to,
              which_ == Which::Forward ? outChannels_ : channels_);
  }

private:
  void addBias(const float *bias, float *to, int64_t channels) const {
#pragma omp parallel for schedule(static) num_threads(threads_)
    for (int64_t row = 0; row < batch_ * channels; ++row)
      for (int64_t i = 0; i < pixels_; ++i)
        to[row * pixels_ + i] += bias[row % channels];
  }

  Which which_;
  int threads_;
  bool hasBias_;
  int64_t batch_, channels_, outChannels_, pixels_;
  Sizes sizes_;
};

// Measured against oneDNN with its layout copies. Images of few pixels fill the register tile's
// columns badly. Weight gradients are worthwhile for few pixels or few channels.
bool isWorthwhile(Which which, const ConvShape &s) {
  if (which == Which::WeightGrad)
    return s.inPlane() <= 1024 || std::min(s.channels, s.outChannels) <= 8;
  return s.inPlane() >= 256;
}

template <Which which>
std::unique_ptr<PreparedKernel> preparePointwise(const OpCall &call, const KernelOptions &options) {
  if (!isProduct(call))
    return nullptr;
  ConvShape s = convShape(call);
  if (s.groups != 1 || isChannelsLast(*call.attrs))
    return nullptr;
  for (int a = 0; a < 3; ++a)
    if (s.kernel[a] != 1 || s.stride[a] != 1 || s.pad[a] != 0 || s.in[a] != s.out[a])
      return nullptr;
  if (!isWorthwhile(which, s))
    return nullptr;
  return std::make_unique<PointwiseConv>(which, s, call.operands.size() > 2, options.threads);
}

} // namespace
} // namespace isthmus::gemm

namespace isthmus {

void registerGemmConv(KernelTable &table) {
  table.add({"conv", "gemm", gemm::preparePointwise<gemm::Which::Forward>});
  table.add({"conv_transpose", "gemm", gemm::preparePointwise<gemm::Which::Transpose>});
  table.add({"conv_weight_grad", "gemm", gemm::preparePointwise<gemm::Which::WeightGrad>});
}

} // namespace isthmus
