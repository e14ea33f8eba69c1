// The CUDA runtime's functions that a device needs. gpu_cuda.cc calls CUDA; gpu_emulation.cc
// emulates them on the CPU, so that all code above this interface is tested without a GPU.
//
// Functions that can fail return null or a message. All from gpuOpen on apply to the device that
// `gpuSelect` last selected on this thread.
#pragma once

#include "kernels/cuda/queue.h"
#include <array>
#include <string>

namespace isthmus::cuda {

struct GpuProperties {
  std::string name;   // "NVIDIA H200"
  std::string target; // identifies kernels and workspaces: "sm_90 cudnn=9.13"
  std::string uuid;   // of this GPU and no other, in all processes and hosts
  double flopsPerSecond = 0, bytesPerSecond = 0, linkBytesPerSecond = 0;
  std::array<double, 8> contractionFlopsPerSecond = {}; // by dtype; zero: flopsPerSecond
};

const char *gpuDescription(); // toolkit and architectures, for display
std::string gpuLibraries(); // NVIDIA's, one per line: the path of each, or where the search looked
const char *gpuCount(int *count);
const char *gpuSelect(int index);

// Fills in the queue and opens the libraries that its kernels share; `gpuClose` releases them.
const char *gpuOpen(int index, Queue &queue, GpuProperties &properties);
void gpuClose(Queue &queue);

const char *gpuMemory(int64_t *freeBytes, int64_t *totalBytes);
const char *gpuAllocate(int64_t bytes, void **address); // aligned to 256 bytes
void gpuRelease(void *address);

const char *gpuAllocateHost(int64_t bytes, void **address); // pinned host memory
void gpuReleaseHost(void *address);

// Copies in the order of the queue. gpuCopyIn returns when `from` may be reused, gpuCopyOut when
// the data has arrived.
const char *gpuCopyIn(const Queue &queue, void *to, const void *from, int64_t bytes);
// Does not wait: `from`, which gpuAllocateHost allocated, must not change until the queue is empty.
const char *gpuCopyHostIn(const Queue &queue, void *to, const void *from, int64_t bytes);
const char *gpuCopyOut(const Queue &queue, void *to, const void *from, int64_t bytes);
const char *gpuLaunchFailure(); // the failure of earlier launches, if any; clears it
const char *gpuWait(const Queue &queue);

// Asynchronous copies between the GPU's memory and memory of gpuAllocateHost, beside the queue;
// copies of one direction run in the order of their starts. A copy begins after all launches before
// its start; launches after its wait run after the copy. The host waits for neither. `id`
// identifies a pending copy. Copies are recorded like launches.
struct GpuLink;
const char *gpuOpenLink(GpuLink **link);
void gpuCloseLink(GpuLink *link);
const char *gpuStartTransfer(const Queue &queue, GpuLink &link, uint32_t id, bool toHost, void *to,
                             const void *from, int64_t bytes);
const char *gpuWaitForTransfer(const Queue &queue, GpuLink &link, uint32_t id);

// A stream for messages, beside the queue, and marks in both. A mark is past when everything has
// run that was launched before it.
struct GpuStream;
const char *gpuOpenStream(GpuStream **stream);
void gpuCloseStream(GpuStream *stream);
void *gpuNative(GpuStream &stream); // cudaStream_t; in the emulation an EmulatedStream
struct GpuMark;
const char *gpuNewMark(GpuMark **mark);
void gpuDropMark(GpuMark *mark);
const char *gpuMark(const Queue &queue, GpuMark &mark);
const char *gpuMark(GpuStream &stream, GpuMark &mark);
// What is launched on the stream later runs when the mark is past.
const char *gpuWaitOn(GpuStream &stream, const GpuMark &mark);
const char *gpuIsPast(GpuMark &mark, bool *isPast); // does not wait

// Launches between start and end are recorded, not run. On failure nothing is recorded.
struct GpuRecording;
const char *gpuStartRecording(Queue &queue);
const char *gpuEndRecording(Queue &queue, GpuRecording **recording);
const char *gpuReplay(const Queue &queue, GpuRecording &recording);
void gpuDrop(GpuRecording *recording);

} // namespace isthmus::cuda
