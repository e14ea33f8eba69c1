// NVIDIA's libraries, shared by a device's kernels: cuBLASLt for matrix products, cuDNN for
// convolutions. Algorithms are chosen once, when a kernel is prepared, and only deterministic ones
// are accepted; so a clone computes the same bits as its origin.
#pragma once

#include "kernels/cuda/nvidia.h"
#include "kernels/cuda/queue.h"
#include "runtime/kernel.h"
#include <cuda_runtime_api.h>

namespace isthmus::cuda {

// The device's library handles. Null if the library is missing or fails to initialise.
struct Libraries {
  cublasLtHandle_t cublasLt = nullptr;
  cudnnHandle_t cudnn = nullptr; // on the queue's stream
};

// Creates the handles and notes missing libraries. Returns the libraries' versions, which determine
// the kernels.
std::string openLibraries(Queue &queue);
void closeLibraries(Queue &queue);

inline Libraries &librariesOf(const Queue &queue) {
  return *static_cast<Libraries *>(queue.libraries);
}
inline cudaStream_t streamOf(const Queue &queue) { return static_cast<cudaStream_t>(queue.stream); }

// The largest workspace that a library kernel may request.
constexpr int64_t kMostWorkspaceBytes = int64_t(1) << 30;

// Libraries require scratch memory aligned to 256 bytes, but an arena aligns to 64. So kernels
// request that much more.
constexpr int64_t kWorkspaceAlignment = 256;
inline int64_t workspaceWithSlack(int64_t bytes) {
  return bytes > 0 ? bytes + kWorkspaceAlignment - 64 : 0;
}
inline void *alignedWorkspace(void *workspace) {
  auto address = reinterpret_cast<uintptr_t>(workspace);
  return reinterpret_cast<void *>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                  kWorkspaceAlignment);
}

// A kernel for a call of matmul, whose result may be f32 where the operands are 16-bit. Null if the
// library has no suitable algorithm. `alignment` divides all addresses.
std::unique_ptr<PreparedKernel> prepareCublasProduct(const OpCall &call, const Queue &queue,
                                                     int64_t alignment);

void registerCublasMatmul(KernelTable &table);
void registerCudnnConv(KernelTable &table);

} // namespace isthmus::cuda
