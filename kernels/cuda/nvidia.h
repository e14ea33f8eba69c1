// NVIDIA's libraries as tables of functions. They are loaded on first use, from wherever
// library_search.h finds them; so the device also works without them, only slower.
#pragma once

#include <cublasLt.h>
#include <cudnn.h>
#include <string>

namespace isthmus::cuda {

#define ISTHMUS_CUDNN_FUNCTIONS(F)                                                                 \
  F(cudnnGetVersion)                                                                               \
  F(cudnnGetCudartVersion)                                                                         \
  F(cudnnGetErrorString)                                                                           \
  F(cudnnCreate)                                                                                   \
  F(cudnnDestroy)                                                                                  \
  F(cudnnSetStream)                                                                                \
  F(cudnnCreateTensorDescriptor)                                                                   \
  F(cudnnDestroyTensorDescriptor)                                                                  \
  F(cudnnSetTensorNdDescriptor)                                                                    \
  F(cudnnCreateFilterDescriptor)                                                                   \
  F(cudnnDestroyFilterDescriptor)                                                                  \
  F(cudnnSetFilterNdDescriptor)                                                                    \
  F(cudnnCreateConvolutionDescriptor)                                                              \
  F(cudnnDestroyConvolutionDescriptor)                                                             \
  F(cudnnSetConvolutionNdDescriptor)                                                               \
  F(cudnnSetConvolutionGroupCount)                                                                 \
  F(cudnnSetConvolutionMathType)                                                                   \
  F(cudnnGetConvolutionNdForwardOutputDim)                                                         \
  F(cudnnGetConvolutionForwardAlgorithm_v7)                                                        \
  F(cudnnGetConvolutionBackwardDataAlgorithm_v7)                                                   \
  F(cudnnGetConvolutionBackwardFilterAlgorithm_v7)                                                 \
  F(cudnnGetConvolutionForwardWorkspaceSize)                                                       \
  F(cudnnGetConvolutionBackwardDataWorkspaceSize)                                                  \
  F(cudnnGetConvolutionBackwardFilterWorkspaceSize)                                                \
  F(cudnnConvolutionForward)                                                                       \
  F(cudnnConvolutionBackwardData)                                                                  \
  F(cudnnConvolutionBackwardFilter)

#define ISTHMUS_CUBLASLT_FUNCTIONS(F)                                                              \
  F(cublasLtGetVersion)                                                                            \
  F(cublasLtGetCudartVersion)                                                                      \
  F(cublasLtGetStatusString)                                                                       \
  F(cublasLtCreate)                                                                                \
  F(cublasLtDestroy)                                                                               \
  F(cublasLtMatrixLayoutCreate)                                                                    \
  F(cublasLtMatrixLayoutDestroy)                                                                   \
  F(cublasLtMatrixLayoutSetAttribute)                                                              \
  F(cublasLtMatmulDescCreate)                                                                      \
  F(cublasLtMatmulDescDestroy)                                                                     \
  F(cublasLtMatmulDescSetAttribute)                                                                \
  F(cublasLtMatmulPreferenceCreate)                                                                \
  F(cublasLtMatmulPreferenceDestroy)                                                               \
  F(cublasLtMatmulPreferenceSetAttribute)                                                          \
  F(cublasLtMatmulAlgoGetHeuristic)                                                                \
  F(cublasLtMatmul)

#define ISTHMUS_FUNCTION(name) decltype(&::name) name = nullptr;
struct Cudnn {
  ISTHMUS_CUDNN_FUNCTIONS(ISTHMUS_FUNCTION)
};
struct CublasLt {
  ISTHMUS_CUBLASLT_FUNCTIONS(ISTHMUS_FUNCTION)
};
#undef ISTHMUS_FUNCTION

// Null if no compatible library was found.
const Cudnn *cudnn();
const CublasLt *cublasLt();

// One line per library: its path, or why it was not found.
std::string nvidiaLibraries();

} // namespace isthmus::cuda
