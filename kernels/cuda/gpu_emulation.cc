// A GPU emulated on the CPU: its memory is host memory, and launches run at once or when their
// recording is replayed. It cannot reveal errors that only a GPU can make.

#include "kernels/cuda/emulated_stream.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/register.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

namespace isthmus::cuda {
namespace {

constexpr const char *kEmulatedLibrary = "emulation";
constexpr int64_t kMemoryBytes = int64_t(2) << 30; // in total, over both devices
// The GPUs of a process are used by one thread each.
std::mutex allocating;
std::map<void *, int64_t> allocations;
int64_t allocatedBytes = 0;
std::atomic<bool> somethingRuns = false; // whether a launch has not been waited for yet

// Whether the fault `what` is requested: a test lists faults in $ISTHMUS_EMULATION_FAULTS.
bool fails(const char *what) {
  const char *faults = std::getenv("ISTHMUS_EMULATION_FAULTS");
  return faults &&
         (" " + std::string(faults) + " ").find(" " + std::string(what) + " ") != std::string::npos;
}

// An emulated library's matrix product, which can be told to fail. It computes with our own kernel.
class LibraryProduct : public PreparedKernel {
public:
  LibraryProduct(const OpCall &call, const Queue &queue, bool runs)
      : own_(prepareOwnProduct(call, queue)), queue_(queue), runs_(runs) {}
  void run(const KernelArgs &args) override {
    if (runs_)
      own_->run(args);
    else
      queue_.failure = "the emulated library was told to fail";
  }

private:
  std::unique_ptr<PreparedKernel> own_;
  const Queue &queue_;
  bool runs_;
};

std::unique_ptr<PreparedKernel> prepareLibraryProduct(const OpCall &call,
                                                      const KernelOptions &options) {
  const Queue &queue = *static_cast<const Queue *>(options.queue);
  if (fails("refuse-products")) {
    queue.note(callTitle(call) + ": the emulated library was told to refuse");
    return nullptr;
  }
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  for (const char *fault : {"first-product", "second-product"}) {
    kernels.push_back(std::make_unique<LibraryProduct>(call, queue, !fails(fault)));
    kernels.back()->library = kEmulatedLibrary;
  }
  return std::make_unique<Candidates>(queue, callTitle(call), std::move(kernels));
}

} // namespace

void registerLibraryKernels(KernelTable &table) {
  table.add({"matmul", kEmulatedLibrary, prepareLibraryProduct});
}

const char *gpuDescription() { return "emulation on the CPU"; }
std::string gpuLibraries() { return ""; }
const char *gpuCount(int *count) {
  *count = 2;
  return nullptr;
}
const char *gpuSelect(int) { return nullptr; }

const char *gpuOpen(int index, Queue &queue, GpuProperties &properties) {
  queue.multiprocessors = 4;
  properties = {"emulation", "emulation", "emulated " + std::to_string(index), 1e11, 1e10, 1e9, {}};
  return nullptr;
}
void gpuClose(Queue &) {}

const char *gpuMemory(int64_t *freeBytes, int64_t *totalBytes) {
  std::lock_guard<std::mutex> lock(allocating);
  *freeBytes = kMemoryBytes - allocatedBytes;
  *totalBytes = kMemoryBytes;
  return nullptr;
}
const char *gpuAllocate(int64_t bytes, void **address) {
  std::lock_guard<std::mutex> lock(allocating);
  if (bytes > kMemoryBytes - allocatedBytes || posix_memalign(address, 256, size_t(bytes) + 1) != 0)
    return "out of memory";
  std::memset(*address, 0xff, size_t(bytes)); // reads of unwritten memory show as NaN
  allocations[*address] = bytes;
  allocatedBytes += bytes;
  return nullptr;
}
void gpuRelease(void *address) {
  std::lock_guard<std::mutex> lock(allocating);
  allocatedBytes -= allocations[address];
  allocations.erase(address);
  std::free(address);
}

const char *gpuAllocateHost(int64_t bytes, void **address) {
  *address = std::malloc(size_t(bytes));
  return *address ? nullptr : "out of memory";
}
void gpuReleaseHost(void *address) { std::free(address); }

const char *gpuCopyIn(const Queue &, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, size_t(bytes));
  return nullptr;
}
const char *gpuCopyHostIn(const Queue &queue, void *to, const void *from, int64_t bytes) {
  return gpuCopyIn(queue, to, from, bytes);
}
const char *gpuCopyOut(const Queue &, void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, size_t(bytes));
  return nullptr;
}
const char *gpuLaunchFailure() {
  somethingRuns = true;
  return nullptr;
}
const char *gpuWait(const Queue &) {
  return somethingRuns.exchange(false) && fails("kernel")
             ? "the emulation was told to fail a kernel"
             : nullptr;
}

// A copy runs when it is waited for, so that a read before the wait, or an overwrite of `from`,
// changes the results.
struct GpuLink {
  struct Copy {
    void *to;
    const void *from;
    int64_t bytes;
  };
  std::map<uint32_t, Copy> underWay;
};
const char *gpuOpenLink(GpuLink **link) {
  *link = new GpuLink;
  return nullptr;
}
void gpuCloseLink(GpuLink *link) { delete link; }
const char *gpuStartTransfer(const Queue &, GpuLink &link, uint32_t id, bool, void *to,
                             const void *from, int64_t bytes) {
  if (fails("transfer"))
    return "the emulation was told to fail a transfer";
  link.underWay[id] = {to, from, bytes};
  return nullptr;
}
const char *gpuWaitForTransfer(const Queue &queue, GpuLink &link, uint32_t id) {
  auto started = link.underWay.find(id);
  if (started == link.underWay.end())
    return nullptr;
  const GpuLink::Copy copy = started->second;
  link.underWay.erase(started);
  auto make = [copy] { std::memcpy(copy.to, copy.from, size_t(copy.bytes)); };
  if (queue.recording)
    queue.recording->push_back(make);
  else
    make();
  return nullptr;
}

// Launches of the queue run at once, so a mark in it is always past.
struct GpuStream : EmulatedStream {};
const char *gpuOpenStream(GpuStream **stream) {
  *stream = new GpuStream;
  return nullptr;
}
void gpuCloseStream(GpuStream *stream) { delete stream; }
void *gpuNative(GpuStream &stream) { return static_cast<EmulatedStream *>(&stream); }

struct GpuMark {
  EmulatedStream *stream = nullptr;
  uint64_t at = 0; // launches of the stream before the mark
};
const char *gpuNewMark(GpuMark **mark) {
  *mark = new GpuMark;
  return nullptr;
}
void gpuDropMark(GpuMark *mark) { delete mark; }
const char *gpuMark(const Queue &, GpuMark &mark) {
  mark = {};
  return nullptr;
}
const char *gpuMark(GpuStream &stream, GpuMark &mark) {
  mark = {&stream, stream.numDone + stream.pending.size()};
  return nullptr;
}
const char *gpuWaitOn(GpuStream &, const GpuMark &) { return nullptr; }
const char *gpuIsPast(GpuMark &mark, bool *isPast) {
  if (mark.stream)
    mark.stream->advance();
  *isPast = !mark.stream || mark.stream->numDone >= mark.at;
  return nullptr;
}

struct GpuRecording {
  std::vector<std::function<void()>> launches;
};

const char *gpuStartRecording(Queue &queue) {
  if (fails("start-recording"))
    return "the emulation was told not to record";
  queue.recording = new std::vector<std::function<void()>>;
  return nullptr;
}
const char *gpuEndRecording(Queue &queue, GpuRecording **recording) {
  *recording = new GpuRecording{std::move(*queue.recording)};
  delete queue.recording;
  queue.recording = nullptr;
  if (fails("end-recording")) {
    gpuDrop(std::exchange(*recording, nullptr));
    return "the emulation was told to end no recording";
  }
  return nullptr;
}
const char *gpuReplay(const Queue &, GpuRecording &recording) {
  if (fails("replay"))
    return "the emulation was told not to replay";
  for (const auto &launch : recording.launches)
    launch();
  return nullptr;
}
void gpuDrop(GpuRecording *recording) { delete recording; }

} // namespace isthmus::cuda
