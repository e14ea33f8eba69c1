#include "kernels/cuda/libraries.h"

#include "kernels/cuda/register.h"

namespace isthmus::cuda {

void registerLibraryKernels(KernelTable &table) {
  registerCublasMatmul(table);
  registerCudnnConv(table);
}

const char *openLibraries(Queue &queue, std::string &versions) {
  auto *l = new Libraries;
  queue.libraries = l;
  queue.prepareProduct = prepareCublasProduct;
  if (cublasStatus_t s = cublasLtCreate(&l->cublasLt); s != CUBLAS_STATUS_SUCCESS)
    return cublasLtGetStatusString(s);
  if (cudnnStatus_t s = cudnnCreate(&l->cudnn); s != CUDNN_STATUS_SUCCESS)
    return cudnnGetErrorString(s);
  if (cudnnStatus_t s = cudnnSetStream(l->cudnn, streamOf(queue)); s != CUDNN_STATUS_SUCCESS)
    return cudnnGetErrorString(s);
  versions = "cublasLt=" + std::to_string(cublasLtGetVersion()) +
             " cudnn=" + std::to_string(cudnnGetVersion());
  return nullptr;
}

void closeLibraries(Queue &queue) {
  auto *l = static_cast<Libraries *>(queue.libraries);
  if (!l)
    return;
  if (l->cudnn)
    cudnnDestroy(l->cudnn);
  if (l->cublasLt)
    cublasLtDestroy(l->cublasLt);
  delete l;
  queue.libraries = nullptr;
}

} // namespace isthmus::cuda
