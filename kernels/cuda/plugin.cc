// The library's side of runtime/cuda_interface.h. A device is a queue, its kernels, and the key of
// its random numbers. The key is in device memory, so that a recorded step can be replayed with
// another key.

#include "kernels/cuda/candidates.h"
#include "kernels/cuda/gpu.h"
#include "kernels/cuda/message_channel.h"
#include "kernels/cuda/register.h"
#include "runtime/flat_call.h"
#include "llvm/ADT/StringMap.h"
#include <cstdio>
#include <cstdlib>

using isthmus::KernelArgs;
using isthmus::KernelTable;
using isthmus::PreparedKernel;
using isthmus::RandomKey;
using namespace isthmus::cuda;

struct IsthmusCudaKernel {
  std::unique_ptr<PreparedKernel> kernel;
};

struct IsthmusCudaRecording {
  GpuRecording *recording;
};

struct IsthmusCudaChannel {
  IsthmusCudaDevice &device;
  MessageChannel channel;
};

struct IsthmusCudaDevice {
  int index = 0;
  Queue queue;
  GpuProperties properties;
  GpuLink *link = nullptr;         // to host memory; opened on first use
  RandomKey *random = nullptr;     // in device memory
  RandomKey *nextRandom = nullptr; // in host memory; copied to `random`
  bool waitsForEach = false;       // wait for every launch ($ISTHMUS_CUDA_SYNC)
  size_t notesTold = 0;
  llvm::StringMap<std::unique_ptr<IsthmusCudaKernel>> kernels;
};

namespace {

// Keeps a message alive until the thread's next message.
const char *kept(std::string message) {
  thread_local std::string last;
  last = std::move(message);
  return last.c_str();
}
const char *failed(const char *what, const char *failure) {
  return failure ? kept(std::string(what) + ": " + failure) : nullptr;
}

const KernelTable &kernels() {
  static const KernelTable *const table = [] {
    auto *t = new KernelTable;
    registerLibraryKernels(*t);
    registerGridKernels(*t);
    return t;
  }();
  return *table;
}

const char *libraries() { return kept(gpuLibraries()); }

const char *countDevices(int32_t *count) {
  int n = 0;
  const char *failure = gpuCount(&n);
  *count = n;
  return failed("looking for devices", failure);
}

void closeDevice(IsthmusCudaDevice *d) {
  gpuSelect(d->index);
  d->kernels.clear();
  if (d->link)
    gpuCloseLink(d->link);
  if (d->random)
    gpuRelease(d->random);
  if (d->nextRandom)
    gpuReleaseHost(d->nextRandom);
  gpuClose(d->queue);
  delete d;
}

const char *openDevice(int32_t index, const IsthmusCudaOptions *options, IsthmusCudaDevice **out) {
  if (const char *failure = gpuSelect(index))
    return failed("choosing the device", failure);
  auto d = std::make_unique<IsthmusCudaDevice>();
  d->index = index;
  d->queue.tf32 = options->tf32 != 0;
  d->queue.launchFailure = gpuLaunchFailure;
  const char *sync = std::getenv("ISTHMUS_CUDA_SYNC");
  d->waitsForEach = sync && *sync && std::string(sync) != "0";
  if (const char *failure = gpuOpen(index, d->queue, d->properties))
    return failed("opening the device", failure);
  if (d->queue.tf32) // selects other kernels, with other workspaces
    d->properties.target += " tf32";
  void *random = nullptr, *nextRandom = nullptr;
  const char *failure = gpuAllocate(sizeof(RandomKey), &random);
  d->random = static_cast<RandomKey *>(random);
  if (!failure)
    failure = gpuAllocateHost(sizeof(RandomKey), &nextRandom);
  d->nextRandom = static_cast<RandomKey *>(nextRandom);
  if (failure) {
    const char *message = failed("opening the device", failure);
    closeDevice(d.release());
    return message;
  }
  *out = d.release();
  return nullptr;
}

void describe(IsthmusCudaDevice *d, IsthmusCudaInfo *info) {
  *info = {};
  std::snprintf(info->name, sizeof info->name, "%s", d->properties.name.c_str());
  std::snprintf(info->target, sizeof info->target, "%s", d->properties.target.c_str());
  info->flopsPerSecond = d->properties.flopsPerSecond;
  info->bytesPerSecond = d->properties.bytesPerSecond;
  info->linkBytesPerSecond = d->properties.linkBytesPerSecond;
  std::copy(d->properties.contractionFlopsPerSecond.begin(),
            d->properties.contractionFlopsPerSecond.end(), info->contractionFlopsPerSecond);
  info->records = !d->waitsForEach;
}

const char *memory(IsthmusCudaDevice *d, int64_t *freeBytes, int64_t *totalBytes) {
  gpuSelect(d->index);
  return failed("asking for free memory", gpuMemory(freeBytes, totalBytes));
}
const char *allocate(IsthmusCudaDevice *d, int64_t bytes, void **address) {
  gpuSelect(d->index);
  return failed("allocating", gpuAllocate(bytes > 0 ? bytes : 1, address));
}
void release(IsthmusCudaDevice *d, void *address) {
  gpuSelect(d->index);
  gpuRelease(address);
}
const char *writeTo(IsthmusCudaDevice *d, void *to, const void *from, int64_t bytes) {
  gpuSelect(d->index);
  return failed("copying to the device", gpuCopyIn(d->queue, to, from, bytes));
}
const char *readFrom(IsthmusCudaDevice *d, void *to, const void *from, int64_t bytes) {
  gpuSelect(d->index);
  return failed("copying from the device", gpuCopyOut(d->queue, to, from, bytes));
}

// A library's kernel may refuse the call, or fail at its first launch; our own kernels are then
// candidates after it.
llvm::Expected<std::unique_ptr<PreparedKernel>> prepareBest(const isthmus::OpCall &call,
                                                            const Queue &queue) {
  isthmus::KernelOptions options;
  options.queue = &queue;
  bool mayBeOfLibrary = kernels().of(call.op->name).size() > 1 && isFloat(call.operands[0].dtype) &&
                        call.results[0].elements() > 0;
  if (!mayBeOfLibrary)
    return kernels().prepare(call, options);
  auto all = kernels().prepareAll(call, options);
  if (!all)
    return all.takeError();
  return std::make_unique<Candidates>(queue, callTitle(call), std::move(*all));
}

const char *prepare(IsthmusCudaDevice *d, const IsthmusCall *flat, IsthmusCudaKernel **out) {
  gpuSelect(d->index);
  auto owned = isthmus::fromFlat(*flat);
  if (!owned)
    return kept(isthmus::plainMessage(owned.takeError()));
  std::unique_ptr<IsthmusCudaKernel> &k = d->kernels[isthmus::callKey((*owned)->call)];
  if (!k) {
    auto made = prepareBest((*owned)->call, d->queue);
    if (!made)
      return kept(isthmus::plainMessage(made.takeError()));
    k = std::make_unique<IsthmusCudaKernel>(IsthmusCudaKernel{std::move(*made)});
  }
  *out = k.get();
  return nullptr;
}
void describeKernel(const IsthmusCudaKernel *k, IsthmusCudaKernelInfo *info) {
  info->workspaceBytes = k->kernel->workspaceBytes();
  info->library = k->kernel->library.data(); // in the table, which is never freed
  info->isSubstitute = k->kernel->isSubstitute();
}

const char *begin(IsthmusCudaDevice *d, uint64_t seed, uint64_t step) {
  gpuSelect(d->index);
  if (const char *failure = gpuWait(d->queue)) // the copy of the previous key may still be running
    return failed("waiting for what was before", failure);
  *d->nextRandom = {seed, step};
  return failed("copying to the device",
                gpuCopyHostIn(d->queue, d->random, d->nextRandom, sizeof(RandomKey)));
}
const char *launch(IsthmusCudaDevice *d, IsthmusCudaKernel *k, const void *const *operands,
                   int64_t numOperands, void *const *results, int64_t numResults, void *workspace) {
  gpuSelect(d->index);
  KernelArgs args;
  args.operands = llvm::makeArrayRef(operands, size_t(numOperands));
  args.results = llvm::makeArrayRef(results, size_t(numResults));
  args.workspace = workspace;
  args.random = d->random;
  d->queue.failure = nullptr;
  k->kernel->run(args);
  const char *ofLaunch = gpuLaunchFailure();
  const char *failure = d->queue.failure ? d->queue.failure : ofLaunch;
  if (!failure && d->waitsForEach)
    return failed("running a kernel", gpuWait(d->queue));
  return failed("launching a kernel", failure);
}
const char *finish(IsthmusCudaDevice *d) {
  gpuSelect(d->index);
  return failed("waiting for the step", gpuWait(d->queue));
}

const char *allocateOnHost(IsthmusCudaDevice *d, int64_t bytes, void **address) {
  gpuSelect(d->index);
  return failed("allocating in the host's memory", gpuAllocateHost(bytes > 0 ? bytes : 1, address));
}
void releaseOnHost(IsthmusCudaDevice *d, void *address) {
  gpuSelect(d->index);
  gpuReleaseHost(address);
}
const char *startTransfer(IsthmusCudaDevice *d, uint32_t id, int32_t toHost, void *to,
                          const void *from, int64_t bytes) {
  gpuSelect(d->index);
  if (!d->link)
    if (const char *failure = gpuOpenLink(&d->link))
      return failed("opening the link to the host", failure);
  return failed("copying to the host or back",
                gpuStartTransfer(d->queue, *d->link, id, toHost != 0, to, from, bytes));
}
const char *waitForTransfer(IsthmusCudaDevice *d, uint32_t id) {
  gpuSelect(d->index);
  return d->link ? failed("waiting for a copy", gpuWaitForTransfer(d->queue, *d->link, id))
                 : nullptr;
}

const char *takeNote(IsthmusCudaDevice *d) {
  if (d->notesTold == d->queue.notes.size())
    return nullptr;
  return d->queue.notes[d->notesTold++].c_str();
}

const char *startRecording(IsthmusCudaDevice *d) {
  gpuSelect(d->index);
  return failed("recording the step", gpuStartRecording(d->queue));
}
const char *endRecording(IsthmusCudaDevice *d, IsthmusCudaRecording **out) {
  gpuSelect(d->index);
  GpuRecording *recording = nullptr;
  if (const char *failure = gpuEndRecording(d->queue, &recording))
    return failed("recording the step", failure);
  *out = new IsthmusCudaRecording{recording};
  return nullptr;
}
const char *replay(IsthmusCudaDevice *d, IsthmusCudaRecording *r) {
  gpuSelect(d->index);
  return failed("running the recorded step", gpuReplay(d->queue, *r->recording));
}
void dropRecording(IsthmusCudaRecording *r) {
  gpuDrop(r->recording);
  delete r;
}

const char *newChannel(IsthmusCudaDevice *d, int32_t sends, IsthmusCudaChannel **out) {
  gpuSelect(d->index);
  *out = nullptr;
  if (const nccl::Library *library = nccl::load())
    *out = new IsthmusCudaChannel{*d, {*library, d->queue, d->properties.uuid, sends != 0}};
  else
    d->queue.note(
        "NCCL was not found: messages between GPUs go through the host's memory, which is "
        "slow; `isthmus devices` tells where it was looked for");
  return nullptr;
}
const char *channelId(IsthmusCudaChannel *c, const char **out) {
  gpuSelect(c->device.index);
  std::string id;
  if (const char *failure = c->channel.makeId(id))
    return failed("naming a channel to another GPU", failure);
  *out = kept(std::move(id));
  return nullptr;
}
const char *openChannel(IsthmusCudaChannel *c, const char *id, int32_t *canOpen) {
  gpuSelect(c->device.index);
  bool can = false;
  const char *failure = c->channel.open(id, can);
  *canOpen = can;
  return failed("opening a channel to another GPU", failure);
}
const char *channelIsOpen(IsthmusCudaChannel *c, int32_t *out) {
  gpuSelect(c->device.index);
  bool isOpen = false;
  const char *failure = c->channel.isOpen(isOpen);
  *out = isOpen;
  return failed("opening a channel to another GPU", failure);
}
const char *postMessage(IsthmusCudaChannel *c, uint64_t message) {
  gpuSelect(c->device.index);
  return failed("starting a message to or from another GPU", c->channel.post(message));
}
const char *startMessage(IsthmusCudaChannel *c, uint64_t message, void *data, int64_t bytes) {
  gpuSelect(c->device.index);
  return failed("starting a message to or from another GPU",
                c->channel.start(message, data, bytes));
}
const char *messageIsDone(IsthmusCudaChannel *c, uint64_t message, int32_t *out) {
  gpuSelect(c->device.index);
  bool isDone = false;
  const char *failure = c->channel.isDone(message, isDone);
  *out = isDone;
  return failed("waiting for a message to or from another GPU", failure);
}
void closeChannel(IsthmusCudaChannel *c) {
  gpuSelect(c->device.index);
  delete c;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const IsthmusCudaInterface *
isthmus_cuda_interface(void) {
  static const IsthmusCudaInterface interface = {
      ISTHMUS_CUDA_INTERFACE_VERSION,
      gpuDescription(),
      libraries,
      countDevices,
      openDevice,
      closeDevice,
      describe,
      memory,
      allocate,
      release,
      writeTo,
      readFrom,
      prepare,
      describeKernel,
      begin,
      launch,
      finish,
      allocateOnHost,
      releaseOnHost,
      startTransfer,
      waitForTransfer,
      takeNote,
      startRecording,
      endRecording,
      replay,
      dropRecording,
      newChannel,
      channelId,
      openChannel,
      channelIsOpen,
      postMessage,
      startMessage,
      messageIsDone,
      closeChannel,
  };
  return &interface;
}
