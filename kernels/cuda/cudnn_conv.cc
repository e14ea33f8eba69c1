// Convolutions by cuDNN: conv, its transpose (the gradient for x) and its gradient for w.

#include "kernels/cuda/libraries.h"
#include "kernels/element/conv_shape.h"
#include <optional>

namespace isthmus::cuda {
namespace {

template <typename T, cudnnStatus_t (*create)(T *), cudnnStatus_t (*destroy)(T)> struct Handle {
  T it = nullptr;
  Handle() {
    if (create(&it) != CUDNN_STATUS_SUCCESS)
      it = nullptr;
  }
  Handle(const Handle &) = delete;
  ~Handle() {
    if (it)
      destroy(it);
  }
};
using TensorHandle =
    Handle<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterHandle =
    Handle<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvHandle = Handle<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor,
                          cudnnDestroyConvolutionDescriptor>;

std::optional<cudnnDataType_t> typeOf(DType t) {
  switch (t) {
  case DType::F32:
    return CUDNN_DATA_FLOAT;
  case DType::F64:
    return CUDNN_DATA_DOUBLE;
  case DType::BF16:
    return CUDNN_DATA_BFLOAT16;
  case DType::F16:
    return CUDNN_DATA_HALF;
  default:
    return std::nullopt;
  }
}

enum class Which : uint8_t { Forward, Transpose, WeightGrad };

class CudnnConv : public PreparedKernel {
public:
  CudnnConv(Which which, const OpCall &call, const Queue &queue)
      : which_(which), queue_(queue), dtype_(call.results[0].dtype), shape_(convShape(call)),
        hasBias_(call.operands.size() > 2), channelsLast_(isChannelsLast(*call.attrs)) {
    spatialAxes_ = int(std::max<size_t>(2, call.operands[0].dims.size() - 2));
  }

  // False if the library does not take the call.
  bool choose() { return describe() && findAlgorithm(); }

  int64_t workspaceBytes() const override { return workspaceWithSlack(workspaceBytes_); }

  void run(const KernelArgs &args) override {
    const float one = 1, zero = 0;
    const double wideOne = 1, wideZero = 0;
    bool wide = dtype_ == DType::F64;
    const void *alpha = wide ? (const void *)&wideOne : &one;
    const void *beta = wide ? (const void *)&wideZero : &zero;
    cudnnHandle_t cudnn = librariesOf(queue_).cudnn;
    const void *first = args.operands[0], *second = args.operands[1];
    void *to = args.results[0], *workspace = alignedWorkspace(args.workspace);
    size_t bytes = size_t(workspaceBytes_);
    cudnnStatus_t s = CUDNN_STATUS_SUCCESS;
    switch (which_) {
    case Which::Forward:
      s = cudnnConvolutionForward(cudnn, alpha, x_.it, first, w_.it, second, conv_.it, forward_,
                                  workspace, bytes, beta, y_.it, to);
      break;
    case Which::Transpose:
      s = cudnnConvolutionBackwardData(cudnn, alpha, w_.it, second, y_.it, first, conv_.it, data_,
                                       workspace, bytes, beta, x_.it, to);
      break;
    case Which::WeightGrad:
      s = cudnnConvolutionBackwardFilter(cudnn, alpha, x_.it, second, y_.it, first, conv_.it,
                                         filter_, workspace, bytes, beta, w_.it, to);
      break;
    }
    if (s == CUDNN_STATUS_SUCCESS && hasBias_)
      s = cudnnAddTensor(cudnn, alpha, bias_.it, args.operands[2], alpha,
                         which_ == Which::Forward ? y_.it : x_.it, to);
    if (s != CUDNN_STATUS_SUCCESS)
      queue_.failure = cudnnGetErrorString(s);
  }

private:
  // [first, second, spatial...], the spatial axes being the last ones of three. Descriptors have
  // the sizes in this order wherever the channels lie: that is told by the strides.
  bool setTensor(TensorHandle &tensor, int64_t first, int64_t second, const int64_t *spatial) {
    int dims[5] = {int(first), int(second)}, strides[5];
    int rank = 2 + spatialAxes_;
    for (int i = 0; i < spatialAxes_; ++i)
      dims[2 + i] = spatial ? int(spatial[3 - spatialAxes_ + i]) : 1;
    int64_t stride = 1;
    auto put = [&](int i) {
      strides[i] = int(stride);
      stride *= dims[i];
    };
    if (channelsLast_)
      put(1);
    for (int i = rank; i-- > 0;)
      if (i != 1 || !channelsLast_)
        put(i);
    return stride <= INT32_MAX && // the library's indices
           cudnnSetTensorNdDescriptor(tensor.it, *typeOf(dtype_), rank, dims, strides) ==
               CUDNN_STATUS_SUCCESS;
  }

  bool describe() {
    if (!x_.it || !y_.it || !w_.it || !bias_.it || !conv_.it)
      return false;
    const ConvShape &s = shape_;
    if (!setTensor(x_, s.batch, s.channels, s.in) ||
        !setTensor(y_, s.batch, s.outChannels, s.out) ||
        (hasBias_ &&
         !setTensor(bias_, 1, which_ == Which::Forward ? s.outChannels : s.channels, nullptr)))
      return false;
    int rank = spatialAxes_, lead = 3 - rank;
    int dims[5] = {int(s.outChannels), int(s.groupChannels())}, pad[3], stride[3], dilation[3];
    for (int i = 0; i < rank; ++i) {
      dims[2 + i] = int(s.kernel[lead + i]);
      pad[i] = int(s.pad[lead + i]);
      stride[i] = int(s.stride[lead + i]);
      dilation[i] = int(s.dilation[lead + i]);
    }
    cudnnDataType_t compute = dtype_ == DType::F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    if (cudnnSetFilterNdDescriptor(w_.it, *typeOf(dtype_),
                                   channelsLast_ ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, 2 + rank,
                                   dims) != CUDNN_STATUS_SUCCESS ||
        cudnnSetConvolutionNdDescriptor(conv_.it, rank, pad, stride, dilation,
                                        CUDNN_CROSS_CORRELATION, compute) != CUDNN_STATUS_SUCCESS ||
        cudnnSetConvolutionGroupCount(conv_.it, int(s.groups)) != CUDNN_STATUS_SUCCESS ||
        cudnnSetConvolutionMathType(conv_.it, mathType()) != CUDNN_STATUS_SUCCESS)
      return false;
    // Its convolutions pad both ends alike: with other padding the result has another size.
    int got[5] = {};
    if (cudnnGetConvolutionNdForwardOutputDim(conv_.it, x_.it, w_.it, 2 + rank, got) !=
        CUDNN_STATUS_SUCCESS)
      return false;
    for (int i = 0; i < rank; ++i)
      if (got[2 + i] != s.out[lead + i])
        return false;
    return true;
  }

  cudnnMathType_t mathType() const {
    if (dtype_ == DType::F32 && !queue_.tf32)
      return CUDNN_FMA_MATH; // the default rounds operands to tf32
    return dtype_ == DType::F64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
  }

  // The first of the library's proposals, best first, that gives the same bits every time.
  template <typename Perf, typename Algorithm>
  bool take(const Perf *found, int count, Algorithm &algorithm) {
    for (int i = 0; i < count; ++i)
      if (found[i].status == CUDNN_STATUS_SUCCESS && found[i].determinism == CUDNN_DETERMINISTIC &&
          int64_t(found[i].memory) <= kMostWorkspaceBytes &&
          (found[i].mathType == mathType() || dtype_ != DType::F32)) {
        algorithm = found[i].algo;
        workspaceBytes_ = int64_t(found[i].memory);
        return cudnnSetConvolutionMathType(conv_.it, found[i].mathType) == CUDNN_STATUS_SUCCESS;
      }
    return false;
  }

  bool findAlgorithm() {
    cudnnHandle_t cudnn = librariesOf(queue_).cudnn;
    int count = 0;
    constexpr int kMost = 16;
    if (which_ == Which::Forward) {
      cudnnConvolutionFwdAlgoPerf_t found[kMost];
      return cudnnGetConvolutionForwardAlgorithm_v7(cudnn, x_.it, w_.it, conv_.it, y_.it, kMost,
                                                    &count, found) == CUDNN_STATUS_SUCCESS &&
             take(found, count, forward_);
    }
    if (which_ == Which::Transpose) {
      cudnnConvolutionBwdDataAlgoPerf_t found[kMost];
      return cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnn, w_.it, y_.it, conv_.it, x_.it,
                                                         kMost, &count,
                                                         found) == CUDNN_STATUS_SUCCESS &&
             take(found, count, data_);
    }
    cudnnConvolutionBwdFilterAlgoPerf_t found[kMost];
    return cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnn, x_.it, y_.it, conv_.it, w_.it,
                                                         kMost, &count,
                                                         found) == CUDNN_STATUS_SUCCESS &&
           take(found, count, filter_);
  }

  const Which which_;
  const Queue &queue_;
  const DType dtype_;
  const ConvShape shape_;
  const bool hasBias_, channelsLast_;
  int spatialAxes_;
  TensorHandle x_, y_, bias_; // x of conv and what it makes, whichever of them is computed here
  FilterHandle w_;
  ConvHandle conv_;
  cudnnConvolutionFwdAlgo_t forward_ = {};
  cudnnConvolutionBwdDataAlgo_t data_ = {};
  cudnnConvolutionBwdFilterAlgo_t filter_ = {};
  int64_t workspaceBytes_ = 0;
};

template <Which which>
std::unique_ptr<PreparedKernel> prepareConv(const OpCall &call, const KernelOptions &options) {
  const Queue &queue = *static_cast<const Queue *>(options.queue);
  if (!typeOf(call.results[0].dtype) || call.operands[0].elements() == 0 ||
      call.operands[1].elements() == 0 || call.results[0].elements() == 0)
    return nullptr;
  auto kernel = std::make_unique<CudnnConv>(which, call, queue);
  if (!kernel->choose())
    return nullptr;
  return kernel;
}

} // namespace

void registerCudnnConv(KernelTable &table) {
  table.add({"conv", "cudnn", prepareConv<Which::Forward>});
  table.add({"conv_transpose", "cudnn", prepareConv<Which::Transpose>});
  table.add({"conv_weight_grad", "cudnn", prepareConv<Which::WeightGrad>});
}

} // namespace isthmus::cuda
