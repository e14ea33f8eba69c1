// The CUDA runtime's side of gpu.h.

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries.h"

#include <cuda_runtime_api.h>

namespace isthmus::cuda {
namespace {

const char *said(cudaError_t e) { return e == cudaSuccess ? nullptr : cudaGetErrorString(e); }
cudaStream_t stream(const Queue &queue) { return static_cast<cudaStream_t>(queue.stream); }

// f32 multiply-adds that a multiprocessor of each generation starts in a cycle (CUDA C++
// Programming Guide, arithmetic instructions).
int lanesPerMultiprocessor(int major, int minor) {
  if (major == 7 || (major == 8 && minor == 0))
    return 64;
  return 128;
}

} // namespace

const char *gpuDescription() {
  return "CUDA " ISTHMUS_CUDA_VERSION ", " ISTHMUS_CUDA_ARCHITECTURES;
}
const char *gpuCount(int *count) { return said(cudaGetDeviceCount(count)); }
const char *gpuSelect(int index) { return said(cudaSetDevice(index)); }

const char *gpuOpen(int index, Queue &queue, GpuProperties &properties) {
  cudaDeviceProp p;
  if (const char *failure = said(cudaGetDeviceProperties(&p, index)))
    return failure;
  int clockKHz = 0, memoryClockKHz = 0;
  cudaDeviceGetAttribute(&clockKHz, cudaDevAttrClockRate, index);
  cudaDeviceGetAttribute(&memoryClockKHz, cudaDevAttrMemoryClockRate, index);
  cudaStream_t made;
  if (const char *failure = said(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)))
    return failure;
  queue.stream = made;
  queue.multiprocessors = p.multiProcessorCount;
  std::string versions;
  if (const char *failure = openLibraries(queue, versions))
    return failure;
  properties.name = p.name;
  properties.target =
      "sm_" + std::to_string(10 * p.major + p.minor) + " " + std::string(p.name) + " " + versions;
  properties.flopsPerSecond =
      2e3 * clockKHz * p.multiProcessorCount * lanesPerMultiprocessor(p.major, p.minor);
  properties.bytesPerSecond = 2e3 * memoryClockKHz * p.memoryBusWidth / 8;
  return nullptr;
}
void gpuClose(Queue &queue) {
  closeLibraries(queue);
  cudaStreamDestroy(stream(queue));
}

const char *gpuMemory(int64_t *freeBytes, int64_t *totalBytes) {
  size_t free = 0, total = 0;
  const char *failure = said(cudaMemGetInfo(&free, &total));
  *freeBytes = int64_t(free);
  *totalBytes = int64_t(total);
  return failure;
}
const char *gpuAllocate(int64_t bytes, void **address) {
  cudaError_t e = cudaMalloc(address, size_t(bytes));
  if (e != cudaSuccess)
    cudaGetLastError(); // a failed allocation harms nothing: it must not be found by the next call
  return said(e);
}
void gpuRelease(void *address) { cudaFree(address); }

const char *gpuCopyIn(const Queue &queue, void *to, const void *from, int64_t bytes) {
  // From pageable memory: staged before the call returns.
  return said(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyHostToDevice, stream(queue)));
}
const char *gpuCopyOut(const Queue &queue, void *to, const void *from, int64_t bytes) {
  if (const char *failure =
          said(cudaMemcpyAsync(to, from, size_t(bytes), cudaMemcpyDeviceToHost, stream(queue))))
    return failure;
  return gpuWait(queue);
}
const char *gpuLaunchFailure() { return said(cudaGetLastError()); }
const char *gpuWait(const Queue &queue) { return said(cudaStreamSynchronize(stream(queue))); }

struct GpuRecording {
  cudaGraphExec_t graph;
};

const char *gpuStartRecording(Queue &queue) {
  return said(cudaStreamBeginCapture(stream(queue), cudaStreamCaptureModeThreadLocal));
}
const char *gpuEndRecording(Queue &queue, GpuRecording **recording) {
  cudaGraph_t graph = nullptr;
  if (const char *failure = said(cudaStreamEndCapture(stream(queue), &graph)))
    return failure;
  cudaGraphExec_t executable = nullptr;
  cudaError_t e = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (e != cudaSuccess)
    return said(e);
  *recording = new GpuRecording{executable};
  return nullptr;
}
const char *gpuReplay(const Queue &queue, GpuRecording &recording) {
  return said(cudaGraphLaunch(recording.graph, stream(queue)));
}
void gpuDrop(GpuRecording *recording) {
  cudaGraphExecDestroy(recording->graph);
  delete recording;
}

} // namespace isthmus::cuda
