#include "kernels/cuda/libraries.h"

#include "kernels/cuda/register.h"

namespace isthmus::cuda {
namespace {

void noteMissing(const Queue &queue, const char *library, const char *what,
                 const std::string &why) {
  queue.note(std::string(library) + " " + why + ": " + what +
             " run on our own kernels, which are slow; `isthmus devices` tells where it was looked "
             "for");
}

cublasLtHandle_t openCublasLt(const Queue &queue, std::string &versions) {
  constexpr const char *kWhat = "products of matrices";
  const CublasLt *library = cublasLt();
  if (!library) {
    noteMissing(queue, "cuBLASLt", kWhat, "was not found");
    return nullptr;
  }
  cublasLtHandle_t handle = nullptr;
  if (cublasStatus_t s = library->cublasLtCreate(&handle); s != CUBLAS_STATUS_SUCCESS) {
    noteMissing(queue, "cuBLASLt", kWhat,
                std::string("does not start (") + library->cublasLtGetStatusString(s) + ")");
    return nullptr;
  }
  versions += " cublasLt=" + std::to_string(library->cublasLtGetVersion());
  return handle;
}

cudnnHandle_t openCudnn(const Queue &queue, std::string &versions) {
  constexpr const char *kWhat = "convolutions";
  const Cudnn *library = cudnn();
  if (!library) {
    noteMissing(queue, "cuDNN", kWhat, "was not found");
    return nullptr;
  }
  cudnnHandle_t handle = nullptr;
  cudnnStatus_t s = library->cudnnCreate(&handle);
  if (s == CUDNN_STATUS_SUCCESS)
    s = library->cudnnSetStream(handle, streamOf(queue));
  if (s != CUDNN_STATUS_SUCCESS) {
    noteMissing(queue, "cuDNN", kWhat,
                std::string("does not start (") + library->cudnnGetErrorString(s) + ")");
    if (handle)
      library->cudnnDestroy(handle);
    return nullptr;
  }
  versions += " cudnn=" + std::to_string(library->cudnnGetVersion());
  return handle;
}

} // namespace

void registerLibraryKernels(KernelTable &table) {
  registerCublasMatmul(table);
  registerCudnnConv(table);
}

std::string openLibraries(Queue &queue) {
  auto *l = new Libraries;
  queue.libraries = l;
  queue.prepareProduct = prepareCublasProduct;
  std::string versions;
  l->cublasLt = openCublasLt(queue, versions);
  l->cudnn = openCudnn(queue, versions);
  if (queue.launchFailure)
    queue.launchFailure(); // clears the failure of a library that did not start
  return versions;
}

void closeLibraries(Queue &queue) {
  auto *l = static_cast<Libraries *>(queue.libraries);
  if (!l)
    return;
  if (l->cudnn)
    cudnn()->cudnnDestroy(l->cudnn);
  if (l->cublasLt)
    cublasLt()->cublasLtDestroy(l->cublasLt);
  delete l;
  queue.libraries = nullptr;
}

} // namespace isthmus::cuda
