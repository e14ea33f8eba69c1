// A GPU played by the CPU: memory is the host's, launches run at once or when their recording is
// replayed. What it cannot show is what only a GPU can get wrong.

#include "kernels/cuda/gpu.h"
#include "kernels/cuda/register.h"

#include <cstdlib>
#include <cstring>
#include <map>

namespace isthmus::cuda {
namespace {

constexpr int64_t kMemoryBytes = int64_t(2) << 30; // of each of the two devices
std::map<void *, int64_t> allocations;
int64_t allocatedBytes = 0;

} // namespace

void registerLibraryKernels(KernelTable &) {}

const char *gpuDescription() { return "stand-in on the CPU"; }
const char *gpuCount(int *count) {
  *count = 2;
  return nullptr;
}
const char *gpuSelect(int) { return nullptr; }

const char *gpuOpen(int, Queue &queue, GpuProperties &properties) {
  queue.multiprocessors = 4;
  properties = {"stand-in", "stand-in", 1e11, 1e10};
  return nullptr;
}
void gpuClose(Queue &) {}

const char *gpuMemory(int64_t *freeBytes, int64_t *totalBytes) {
  *freeBytes = kMemoryBytes - allocatedBytes;
  *totalBytes = kMemoryBytes;
  return nullptr;
}
const char *gpuAllocate(int64_t bytes, void **address) {
  if (bytes > kMemoryBytes - allocatedBytes || posix_memalign(address, 256, size_t(bytes) + 1) != 0)
    return "out of memory";
  std::memset(*address, 0xff, size_t(bytes)); // what is read without being written shows as NaN
  allocations[*address] = bytes;
  allocatedBytes += bytes;
  return nullptr;
}
void gpuRelease(void *address) {
  allocatedBytes -= allocations[address];
  allocations.erase(address);
  std::free(address);
}

const char *gpuCopyIn(const Queue &, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, size_t(bytes));
  return nullptr;
}
const char *gpuCopyOut(const Queue &, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, size_t(bytes));
  return nullptr;
}
const char *gpuLaunchFailure() { return nullptr; }
const char *gpuWait(const Queue &) { return nullptr; }

struct GpuRecording {
  std::vector<std::function<void()>> launches;
};

const char *gpuStartRecording(Queue &queue) {
  queue.recording = new std::vector<std::function<void()>>;
  return nullptr;
}
const char *gpuEndRecording(Queue &queue, GpuRecording **recording) {
  *recording = new GpuRecording{std::move(*queue.recording)};
  delete queue.recording;
  queue.recording = nullptr;
  return nullptr;
}
const char *gpuReplay(const Queue &, GpuRecording &recording) {
  for (const auto &launch : recording.launches)
    launch();
  return nullptr;
}
void gpuDrop(GpuRecording *recording) { delete recording; }

} // namespace isthmus::cuda
