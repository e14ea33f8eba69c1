// NVIDIA's libraries, as a device's kernels share them: cuBLASLt for products of matrices, cuDNN
// for convolutions. Algorithms are asked for once, when a kernel is prepared, and only those that
// give the same bits on every run are taken; so a clone computes what its origin did.
#pragma once

#include "kernels/cuda/nvidia.h"
#include "kernels/cuda/queue.h"
#include "runtime/kernel.h"
#include <cuda_runtime_api.h>

namespace isthmus::cuda {

// Handles of the device. Null where there is no such library, or where it does not start.
struct Libraries {
  cublasLtHandle_t cublasLt = nullptr;
  cudnnHandle_t cudnn = nullptr; // on the queue's stream
};

// Makes the handles; what is missing is noted. The libraries' versions, which kernels follow from.
std::string openLibraries(Queue &queue);
void closeLibraries(Queue &queue);

inline Libraries &librariesOf(const Queue &queue) {
  return *static_cast<Libraries *>(queue.libraries);
}
inline cudaStream_t streamOf(const Queue &queue) { return static_cast<cudaStream_t>(queue.stream); }

// What a prepared kernel may ask for as scratch memory.
constexpr int64_t kMostWorkspaceBytes = int64_t(1) << 30;

// Libraries want their scratch memory at 256 bytes; an arena gives 64. So much more is asked for.
constexpr int64_t kWorkspaceAlignment = 256;
inline int64_t workspaceWithSlack(int64_t bytes) {
  return bytes > 0 ? bytes + kWorkspaceAlignment - 64 : 0;
}
inline void *alignedWorkspace(void *workspace) {
  auto address = reinterpret_cast<uintptr_t>(workspace);
  return reinterpret_cast<void *>((address + kWorkspaceAlignment - 1) / kWorkspaceAlignment *
                                  kWorkspaceAlignment);
}

// Of a call of matmul, whose result may be f32 where the operands are of 16 bits. Null where the
// library has nothing for it. `alignment` divides all addresses.
std::unique_ptr<PreparedKernel> prepareCublasProduct(const OpCall &call, const Queue &queue,
                                                     int64_t alignment);

void registerCublasMatmul(KernelTable &table);
void registerCudnnConv(KernelTable &table);

} // namespace isthmus::cuda
