// Convolutions by cuDNN: conv, its transpose (the gradient for x) and its gradient for w.
//
// The library proposes algorithms, best first. All deterministic ones that report their scratch
// memory become candidates, because a proposal may fail to run.

#include "kernels/cuda/bias.h"
#include "kernels/cuda/candidates.h"
#include "kernels/cuda/libraries.h"
#include "kernels/element/conv_shape.h"
#include <optional>

namespace isthmus::cuda {
namespace {

template <typename T, auto create, auto destroy> struct Handle {
  T it = nullptr;
  Handle() {
    if ((cudnn()->*create)(&it) != CUDNN_STATUS_SUCCESS)
      it = nullptr;
  }
  Handle(const Handle &) = delete;
  ~Handle() {
    if (it)
      (cudnn()->*destroy)(it);
  }
};
using TensorHandle = Handle<cudnnTensorDescriptor_t, &Cudnn::cudnnCreateTensorDescriptor,
                            &Cudnn::cudnnDestroyTensorDescriptor>;
using FilterHandle = Handle<cudnnFilterDescriptor_t, &Cudnn::cudnnCreateFilterDescriptor,
                            &Cudnn::cudnnDestroyFilterDescriptor>;
using ConvHandle = Handle<cudnnConvolutionDescriptor_t, &Cudnn::cudnnCreateConvolutionDescriptor,
                          &Cudnn::cudnnDestroyConvolutionDescriptor>;

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

// A call in terms of the library's descriptors. x is the operand of conv and y its result,
// whichever tensor the call computes.
class Described {
public:
  Described(Which which, const OpCall &call)
      : which(which), dtype(call.results[0].dtype), shape(convShape(call)),
        hasBias(call.operands.size() > 2), channelsLast(isChannelsLast(*call.attrs)),
        spatialAxes_(int(std::max<size_t>(2, call.operands[0].dims.size() - 2))) {}

  // False if the library does not take the call.
  bool describe() {
    return x.it && y.it && w.it && setTensor(x, shape.batch, shape.channels, shape.in) &&
           setTensor(y, shape.batch, shape.outChannels, shape.out) && setFilter();
  }

  bool describe(ConvHandle &conv, cudnnMathType_t math) const {
    int rank = spatialAxes_, lead = 3 - rank;
    int pad[3], stride[3], dilation[3];
    for (int i = 0; i < rank; ++i) {
      pad[i] = int(shape.pad[lead + i]);
      stride[i] = int(shape.stride[lead + i]);
      dilation[i] = int(shape.dilation[lead + i]);
    }
    cudnnDataType_t compute = dtype == DType::F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
    const Cudnn &c = *cudnn();
    return conv.it &&
           c.cudnnSetConvolutionNdDescriptor(conv.it, rank, pad, stride, dilation,
                                             CUDNN_CROSS_CORRELATION,
                                             compute) == CUDNN_STATUS_SUCCESS &&
           c.cudnnSetConvolutionGroupCount(conv.it, int(shape.groups)) == CUDNN_STATUS_SUCCESS &&
           c.cudnnSetConvolutionMathType(conv.it, math) == CUDNN_STATUS_SUCCESS &&
           givesItsSize(conv);
  }

  void addBiasTo(void *to, const void *bias, const Queue &queue) const {
    bool forward = which == Which::Forward;
    int64_t channels = forward ? shape.outChannels : shape.channels;
    int64_t plane = forward ? shape.outPlane() : shape.inPlane();
    addBias(queue, dtype, bias, channels, channelsLast ? 1 : plane, shape.batch * channels * plane,
            to);
  }

  const Which which;
  const DType dtype;
  const ConvShape shape;
  const bool hasBias, channelsLast;
  TensorHandle x, y;
  FilterHandle w;

private:
  // Sizes are [first, second, spatial...]; the spatial axes are the last ones of the three in
  // `spatial`. Descriptors list sizes in this order for every layout; the strides express
  // channels-last.
  bool setTensor(TensorHandle &tensor, int64_t first, int64_t second, const int64_t *spatial) {
    int dims[5] = {int(first), int(second)}, strides[5];
    int rank = 2 + spatialAxes_;
    for (int i = 0; i < spatialAxes_; ++i)
      dims[2 + i] = int(spatial[3 - spatialAxes_ + i]);
    int64_t stride = 1;
    auto put = [&](int i) {
      strides[i] = int(stride);
      stride *= dims[i];
    };
    if (channelsLast)
      put(1);
    for (int i = rank; i-- > 0;)
      if (i != 1 || !channelsLast)
        put(i);
    return stride <= INT32_MAX && // the library has 32-bit indices
           cudnn()->cudnnSetTensorNdDescriptor(tensor.it, *typeOf(dtype), rank, dims, strides) ==
               CUDNN_STATUS_SUCCESS;
  }

  bool setFilter() {
    int dims[5] = {int(shape.outChannels), int(shape.groupChannels())};
    for (int i = 0; i < spatialAxes_; ++i)
      dims[2 + i] = int(shape.kernel[3 - spatialAxes_ + i]);
    return cudnn()->cudnnSetFilterNdDescriptor(w.it, *typeOf(dtype),
                                               channelsLast ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                               2 + spatialAxes_, dims) == CUDNN_STATUS_SUCCESS;
  }

  // The library pads both ends equally; with other padding its result has another size.
  bool givesItsSize(const ConvHandle &conv) const {
    int rank = spatialAxes_, got[5] = {};
    if (cudnn()->cudnnGetConvolutionNdForwardOutputDim(conv.it, x.it, w.it, 2 + rank, got) !=
        CUDNN_STATUS_SUCCESS)
      return false;
    for (int i = 0; i < rank; ++i)
      if (got[2 + i] != shape.out[3 - rank + i])
        return false;
    return true;
  }

  const int spatialAxes_;
};

// One algorithm for the call, with a math type.
class CudnnConv : public PreparedKernel {
public:
  CudnnConv(std::shared_ptr<const Described> call, const Queue &queue, int algorithm)
      : call_(std::move(call)), queue_(queue), algorithm_(algorithm) {}

  // False if the algorithm cannot be used with `math`. Queries the workspace size from the library,
  // because the proposal's size may be for another math type.
  bool choose(cudnnMathType_t math) {
    size_t bytes = 0;
    if (!call_->describe(conv_, math) || sizeOfWorkspace(&bytes) != CUDNN_STATUS_SUCCESS ||
        bytes > size_t(kMostWorkspaceBytes))
      return false;
    workspaceBytes_ = int64_t(bytes);
    return true;
  }

  int64_t workspaceBytes() const override { return workspaceWithSlack(workspaceBytes_); }

  void run(const KernelArgs &args) override {
    if (cudnnStatus_t s = convolve(args); s != CUDNN_STATUS_SUCCESS)
      queue_.failure = cudnn()->cudnnGetErrorString(s);
    else if (call_->hasBias)
      call_->addBiasTo(args.results[0], args.operands[2], queue_);
  }

private:
  cudnnConvolutionFwdAlgo_t forward() const { return cudnnConvolutionFwdAlgo_t(algorithm_); }
  cudnnConvolutionBwdDataAlgo_t data() const { return cudnnConvolutionBwdDataAlgo_t(algorithm_); }
  cudnnConvolutionBwdFilterAlgo_t filter() const {
    return cudnnConvolutionBwdFilterAlgo_t(algorithm_);
  }

  cudnnStatus_t sizeOfWorkspace(size_t *bytes) const {
    cudnnHandle_t handle = librariesOf(queue_).cudnn;
    const Cudnn &c = *cudnn();
    auto x = call_->x.it, y = call_->y.it;
    auto w = call_->w.it;
    switch (call_->which) {
    case Which::Forward:
      return c.cudnnGetConvolutionForwardWorkspaceSize(handle, x, w, conv_.it, y, forward(), bytes);
    case Which::Transpose:
      return c.cudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, conv_.it, x, data(),
                                                            bytes);
    case Which::WeightGrad:
      return c.cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, conv_.it, w, filter(),
                                                              bytes);
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
  }

  cudnnStatus_t convolve(const KernelArgs &args) const {
    const float one = 1, zero = 0;
    const double wideOne = 1, wideZero = 0;
    bool wide = call_->dtype == DType::F64;
    const void *alpha = wide ? (const void *)&wideOne : &one;
    const void *beta = wide ? (const void *)&wideZero : &zero;
    cudnnHandle_t handle = librariesOf(queue_).cudnn;
    const Cudnn &c = *cudnn();
    auto x = call_->x.it, y = call_->y.it;
    auto w = call_->w.it;
    const void *first = args.operands[0], *second = args.operands[1];
    void *to = args.results[0], *workspace = alignedWorkspace(args.workspace);
    size_t bytes = size_t(workspaceBytes_);
    switch (call_->which) {
    case Which::Forward:
      return c.cudnnConvolutionForward(handle, alpha, x, first, w, second, conv_.it, forward(),
                                       workspace, bytes, beta, y, to);
    case Which::Transpose:
      return c.cudnnConvolutionBackwardData(handle, alpha, w, second, y, first, conv_.it, data(),
                                            workspace, bytes, beta, x, to);
    case Which::WeightGrad:
      return c.cudnnConvolutionBackwardFilter(handle, alpha, x, second, y, first, conv_.it,
                                              filter(), workspace, bytes, beta, w, to);
    }
    return CUDNN_STATUS_NOT_SUPPORTED;
  }

  const std::shared_ptr<const Described> call_;
  const Queue &queue_;
  const int algorithm_; // of the enumeration that belongs to call_->which
  ConvHandle conv_;     // with its math type
  int64_t workspaceBytes_ = 0;
};

// The math type to propose algorithms for.
cudnnMathType_t mathOf(DType t, const Queue &queue) {
  if (t == DType::F32 && !queue.tf32)
    return CUDNN_FMA_MATH; // the default rounds operands to tf32
  return t == DType::F64 ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

// Adds the usable proposals, best first, to the candidates.
template <typename Perf>
void addCandidates(const std::shared_ptr<const Described> &call, const Queue &queue,
                   const Perf *found, int count,
                   std::vector<std::unique_ptr<PreparedKernel>> &kernels) {
  for (int i = 0; i < count; ++i) {
    const Perf &p = found[i];
    if (p.status != CUDNN_STATUS_SUCCESS || p.determinism != CUDNN_DETERMINISTIC ||
        p.mathType ==
            CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) // narrower than the precision asked for
      continue;
    bool isStrict = call->dtype == DType::F32 && !queue.tf32;
    auto kernel = std::make_unique<CudnnConv>(call, queue, int(p.algo));
    kernel->library = "cudnn";
    if (kernel->choose(isStrict ? CUDNN_FMA_MATH : p.mathType))
      kernels.push_back(std::move(kernel));
  }
}

cudnnStatus_t propose(const std::shared_ptr<const Described> &call, const Queue &queue,
                      std::vector<std::unique_ptr<PreparedKernel>> &kernels) {
  constexpr int kMost = 32;
  ConvHandle conv;
  if (!call->describe(conv, mathOf(call->dtype, queue)))
    return CUDNN_STATUS_NOT_SUPPORTED;
  cudnnHandle_t handle = librariesOf(queue).cudnn;
  const Cudnn &c = *cudnn();
  auto x = call->x.it, y = call->y.it;
  auto w = call->w.it;
  int count = 0;
  auto ask = [&](auto *found, auto function, auto a, auto b, auto result) {
    cudnnStatus_t s = function(handle, a, b, conv.it, result, kMost, &count, found);
    if (s == CUDNN_STATUS_SUCCESS)
      addCandidates(call, queue, found, count, kernels);
    return s;
  };
  if (call->which == Which::Forward) {
    cudnnConvolutionFwdAlgoPerf_t found[kMost];
    return ask(found, c.cudnnGetConvolutionForwardAlgorithm_v7, x, w, y);
  }
  if (call->which == Which::Transpose) {
    cudnnConvolutionBwdDataAlgoPerf_t found[kMost];
    return ask(found, c.cudnnGetConvolutionBackwardDataAlgorithm_v7, w, y, x);
  }
  cudnnConvolutionBwdFilterAlgoPerf_t found[kMost];
  return ask(found, c.cudnnGetConvolutionBackwardFilterAlgorithm_v7, x, y, w);
}

template <Which which>
std::unique_ptr<PreparedKernel> prepareConv(const OpCall &call, const KernelOptions &options) {
  const Queue &queue = *static_cast<const Queue *>(options.queue);
  if (!librariesOf(queue).cudnn || !typeOf(call.results[0].dtype) ||
      call.operands[0].elements() == 0 || call.operands[1].elements() == 0 ||
      call.results[0].elements() == 0)
    return nullptr;
  auto described = std::make_shared<Described>(which, call);
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  cudnnStatus_t s =
      described->describe() ? propose(described, queue, kernels) : CUDNN_STATUS_NOT_SUPPORTED;
  if (queue.launchFailure)
    queue.launchFailure(); // clears the failures of proposals that were tried and refused
  if (!kernels.empty())
    return std::make_unique<Candidates>(queue, callTitle(call), std::move(kernels));
  queue.note(callTitle(call) + ": cuDNN has no algorithm that gives the same bits every time (" +
             (s == CUDNN_STATUS_SUCCESS ? "none is proposed" : cudnn()->cudnnGetErrorString(s)) +
             "), so our own kernel, which is slow, runs");
  return nullptr;
}

} // namespace

void registerCudnnConv(KernelTable &table) {
  table.add({"conv", "cudnn", prepareConv<Which::Forward>});
  table.add({"conv_transpose", "cudnn", prepareConv<Which::Transpose>});
  table.add({"conv_weight_grad", "cudnn", prepareConv<Which::WeightGrad>});
}

} // namespace isthmus::cuda
