// gpu.h on the CUDA runtime.

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/nccl.h"
#include "kernels/cuda/nvidia.h"
#include "kernels/cuda/rates.h"

#include "llvm/ADT/StringExtras.h"
#include <cuda_runtime_api.h>
#include <map>

namespace isthmus::cuda {
namespace {

const char *said(cudaError_t e) { return e == cudaSuccess ? nullptr : cudaGetErrorString(e); }
cudaStream_t stream(const Queue &queue) { return static_cast<cudaStream_t>(queue.stream); }

// Like `said`, but also clears the error, so that no later call reports it again.
const char *saidOnce(cudaError_t e) {
  if (e != cudaSuccess)
    cudaGetLastError();
  return said(e);
}

// A clock rate in hertz; `common` if the driver does not report it.
double hertz(cudaDeviceAttr which, int index, double common) {
  int kilohertz = 0;
  if (saidOnce(cudaDeviceGetAttribute(&kilohertz, which, index)) || kilohertz <= 0)
    return common;
  return 1e3 * kilohertz;
}

GpuRates ratesOf(const cudaDeviceProp &p, int index, bool tf32) {
  GpuShape shape;
  shape.major = p.major;
  shape.minor = p.minor;
  shape.multiprocessors = p.multiProcessorCount;
  shape.hertz = hertz(cudaDevAttrClockRate, index, 1.5e9);
  shape.memoryHertz = hertz(cudaDevAttrMemoryClockRate, index, 2e9);
  shape.memoryBits = p.memoryBusWidth;
  return gpuRates(shape, tf32);
}

} // namespace

const char *gpuDescription() {
  return "CUDA " ISTHMUS_CUDA_VERSION ", " ISTHMUS_CUDA_ARCHITECTURES;
}
const char *gpuCount(int *count) {
  int driver = 0; // the latest CUDA version that the driver supports
  if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
    return "there is no NVIDIA driver (libcuda.so.1)"; // the runtime would report it as too old
  return saidOnce(cudaGetDeviceCount(count));
}
const char *gpuSelect(int index) { return said(cudaSetDevice(index)); }
std::string gpuLibraries() { return nvidiaLibraries() + nccl::libraryLine(); }

const char *gpuOpen(int index, Queue &queue, GpuProperties &properties) {
  cudaDeviceProp p;
  if (const char *failure = said(cudaGetDeviceProperties(&p, index)))
    return failure;
  cudaStream_t made;
  if (const char *failure = said(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking)))
    return failure;
  queue.stream = made;
  queue.multiprocessors = p.multiProcessorCount;
  properties.name = p.name;
  properties.uuid = llvm::toHex({p.uuid.bytes, sizeof p.uuid.bytes});
  properties.target = "sm_" + std::to_string(10 * p.major + p.minor) + " " + std::string(p.name) +
                      openLibraries(queue);
  GpuRates rates = ratesOf(p, index, queue.tf32);
  properties.flopsPerSecond = rates.flopsPerSecond;
  properties.bytesPerSecond = rates.bytesPerSecond;
  properties.linkBytesPerSecond = rates.linkBytesPerSecond;
  properties.contractionFlopsPerSecond = rates.contractionFlopsPerSecond;
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
  return saidOnce(cudaMalloc(address, size_t(bytes)));
}
void gpuRelease(void *address) { cudaFree(address); }
const char *gpuAllocateHost(int64_t bytes, void **address) {
  return saidOnce(cudaMallocHost(address, size_t(bytes)));
}
void gpuReleaseHost(void *address) { cudaFreeHost(address); }

const char *gpuCopyIn(const Queue &queue, void *to, const void *from, int64_t bytes) {
  if (const char *failure = gpuCopyHostIn(queue, to, from, bytes))
    return failure;
  return gpuWait(queue); // pageable memory may not have been read yet when the copy call returns
}
const char *gpuCopyHostIn(const Queue &queue, void *to, const void *from, int64_t bytes) {
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

struct GpuLink {
  cudaStream_t toHost = nullptr, toDevice = nullptr;
  cudaEvent_t before = nullptr;              // the queue's launches before a transfer's start
  std::map<uint32_t, cudaEvent_t> completed; // by id
};

static const char *newEvent(cudaEvent_t *event) {
  return saidOnce(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
}

const char *gpuOpenLink(GpuLink **out) {
  auto *link = new GpuLink;
  const char *failure = saidOnce(cudaStreamCreateWithFlags(&link->toHost, cudaStreamNonBlocking));
  if (!failure)
    failure = saidOnce(cudaStreamCreateWithFlags(&link->toDevice, cudaStreamNonBlocking));
  if (!failure)
    failure = newEvent(&link->before);
  if (failure)
    gpuCloseLink(link);
  else
    *out = link;
  return failure;
}
void gpuCloseLink(GpuLink *link) {
  for (const auto &[id, event] : link->completed)
    cudaEventDestroy(event);
  if (link->before)
    cudaEventDestroy(link->before);
  for (cudaStream_t s : {link->toHost, link->toDevice})
    if (s)
      cudaStreamDestroy(s);
  delete link;
}

const char *gpuStartTransfer(const Queue &queue, GpuLink &link, uint32_t id, bool toHost, void *to,
                             const void *from, int64_t bytes) {
  cudaStream_t way = toHost ? link.toHost : link.toDevice;
  cudaEvent_t &completed = link.completed[id];
  const char *failure = completed ? nullptr : newEvent(&completed);
  if (!failure)
    failure = saidOnce(cudaEventRecord(link.before, stream(queue)));
  if (!failure)
    failure = saidOnce(cudaStreamWaitEvent(way, link.before, 0));
  if (!failure)
    failure = saidOnce(cudaMemcpyAsync(
        to, from, size_t(bytes), toHost ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, way));
  return failure ? failure : saidOnce(cudaEventRecord(completed, way));
}
const char *gpuWaitForTransfer(const Queue &queue, GpuLink &link, uint32_t id) {
  auto started = link.completed.find(id);
  if (started == link.completed.end())
    return nullptr;
  return saidOnce(cudaStreamWaitEvent(stream(queue), started->second, 0));
}

struct GpuStream {
  cudaStream_t stream = nullptr;
};
const char *gpuOpenStream(GpuStream **out) {
  auto made = std::make_unique<GpuStream>();
  if (const char *failure =
          saidOnce(cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking)))
    return failure;
  *out = made.release();
  return nullptr;
}
void gpuCloseStream(GpuStream *s) {
  cudaStreamDestroy(s->stream);
  delete s;
}
void *gpuNative(GpuStream &s) { return s.stream; }

struct GpuMark {
  cudaEvent_t event = nullptr;
};
const char *gpuNewMark(GpuMark **out) {
  auto made = std::make_unique<GpuMark>();
  if (const char *failure = newEvent(&made->event))
    return failure;
  *out = made.release();
  return nullptr;
}
void gpuDropMark(GpuMark *mark) {
  cudaEventDestroy(mark->event);
  delete mark;
}
const char *gpuMark(const Queue &queue, GpuMark &mark) {
  return saidOnce(cudaEventRecord(mark.event, stream(queue)));
}
const char *gpuMark(GpuStream &s, GpuMark &mark) {
  return saidOnce(cudaEventRecord(mark.event, s.stream));
}
const char *gpuWaitOn(GpuStream &s, const GpuMark &mark) {
  return saidOnce(cudaStreamWaitEvent(s.stream, mark.event, 0));
}
const char *gpuIsPast(GpuMark &mark, bool *isPast) {
  const cudaError_t e = cudaEventQuery(mark.event);
  *isPast = e == cudaSuccess;
  return e == cudaErrorNotReady ? nullptr : saidOnce(e);
}

struct GpuRecording {
  cudaGraphExec_t graph;
};

const char *gpuStartRecording(Queue &queue) {
  return saidOnce(cudaStreamBeginCapture(stream(queue), cudaStreamCaptureModeThreadLocal));
}
const char *gpuEndRecording(Queue &queue, GpuRecording **recording) {
  cudaGraph_t graph = nullptr;
  if (const char *failure = saidOnce(cudaStreamEndCapture(stream(queue), &graph)))
    return failure;
  cudaGraphExec_t executable = nullptr;
  cudaError_t e = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  if (e != cudaSuccess)
    return saidOnce(e);
  *recording = new GpuRecording{executable};
  return nullptr;
}
const char *gpuReplay(const Queue &queue, GpuRecording &recording) {
  return saidOnce(cudaGraphLaunch(recording.graph, stream(queue)));
}
void gpuDrop(GpuRecording *recording) {
  cudaGraphExecDestroy(recording->graph);
  delete recording;
}

} // namespace isthmus::cuda
