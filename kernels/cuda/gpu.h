// What a device needs of the CUDA runtime, in a dozen calls. gpu_cuda.cc makes them;
// gpu_emulation.cc emulates them on the CPU, so that all above is tested without a GPU.
//
// Functions that can fail return null or a message. All but the first two are about the device
// that `gpuSelect` named last on this thread.
#pragma once

#include "kernels/cuda/queue.h"
#include <array>
#include <string>

namespace isthmus::cuda {

struct GpuProperties {
  std::string name;   // "NVIDIA H200"
  std::string target; // what its kernels and their workspaces follow from: "sm_90 cudnn=9.13"
  double flopsPerSecond = 0, bytesPerSecond = 0, linkBytesPerSecond = 0;
  std::array<double, 8> contractionFlopsPerSecond = {}; // by dtype; zero: as other arithmetic
};

const char *gpuDescription(); // toolkit and architectures, for people
std::string gpuLibraries();   // NVIDIA's, one a line: where each is, or where it was looked for
const char *gpuCount(int *count);
const char *gpuSelect(int index);

// Fills in the queue and opens what its kernels share; `gpuClose` gives it all back.
const char *gpuOpen(int index, Queue &queue, GpuProperties &properties);
void gpuClose(Queue &queue);

const char *gpuMemory(int64_t *freeBytes, int64_t *totalBytes);
const char *gpuAllocate(int64_t bytes, void **address); // of 256 bytes' alignment
void gpuRelease(void *address);

const char *gpuAllocateHost(int64_t bytes, void **address); // of the host, which the GPU can read
void gpuReleaseHost(void *address);

// In the order of the queue. `from` may be reused after copying in, and what is copied out is there
// on return.
const char *gpuCopyIn(const Queue &queue, void *to, const void *from, int64_t bytes);
// Without waiting: `from`, which is of gpuAllocateHost, stays as it is until the queue is empty.
const char *gpuCopyHostIn(const Queue &queue, void *to, const void *from, int64_t bytes);
const char *gpuCopyOut(const Queue &queue, void *to, const void *from, int64_t bytes);
const char *gpuLaunchFailure(); // of the launches before, if any, which is then forgotten
const char *gpuWait(const Queue &queue);

// Copies between the GPU's memory and that of gpuAllocateHost, beside the queue: each direction in
// the order of its starts. One begins after what was launched before it; what is launched after the
// wait runs after it. The host waits for neither. `id` tells those under way apart. They are
// recorded like launches.
struct GpuLink;
const char *gpuOpenLink(GpuLink **link);
void gpuCloseLink(GpuLink *link);
const char *gpuStartTransfer(const Queue &queue, GpuLink &link, uint32_t id, bool toHost, void *to,
                             const void *from, int64_t bytes);
const char *gpuWaitForTransfer(const Queue &queue, GpuLink &link, uint32_t id);

// Launches between the two are recorded instead of run. A failure leaves nothing behind.
struct GpuRecording;
const char *gpuStartRecording(Queue &queue);
const char *gpuEndRecording(Queue &queue, GpuRecording **recording);
const char *gpuReplay(const Queue &queue, GpuRecording &recording);
void gpuDrop(GpuRecording *recording);

} // namespace isthmus::cuda
