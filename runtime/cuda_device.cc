#include "runtime/cuda_device.h"

#include "ir/check.h"
#include "runtime/device_transport.h"
#include "runtime/flat_call.h"
#include "llvm/ADT/STLExtras.h"
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

namespace isthmus {
namespace {

constexpr const char *kLibrary = "libisthmus_cuda.so";

std::string programFolder() {
  char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  llvm::StringRef whole(path, n > 0 ? size_t(n) : 0);
  return whole.rsplit('/').first.str();
}

// The library's handle; null with a reason in `why`.
void *openLibrary(std::string &why) {
  std::vector<std::string> places;
  if (const char *given = std::getenv("ISTHMUS_CUDA_LIBRARY"))
    places = {given};
  else
    places = {programFolder() + "/" + kLibrary, programFolder() + "/../lib/" + kLibrary,
              programFolder() + "/../kernels/cuda/" + kLibrary}; // the build's output folder
  for (const std::string &place : places) {
    if (access(place.c_str(), F_OK) != 0)
      continue;
    void *handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      why = std::string(kLibrary) + " cannot be loaded: " + dlerror();
    return handle;
  }
  why = "there is no " + places.front() + "; it is built where a CUDA toolkit is found";
  return nullptr;
}

llvm::Expected<const IsthmusCudaInterface *> loadInterface() {
  std::string why;
  void *handle = openLibrary(why); // stays loaded: the CUDA runtime cannot be unloaded safely
  if (!handle)
    return makeError(ErrorKind::Device, "{0}", why);
  auto entry =
      reinterpret_cast<const IsthmusCudaInterface *(*)()>(dlsym(handle, "isthmus_cuda_interface"));
  if (!entry)
    return makeError(ErrorKind::Device, "{0} has no isthmus_cuda_interface", kLibrary);
  const IsthmusCudaInterface *interface = entry();
  if (interface->version != ISTHMUS_CUDA_INTERFACE_VERSION)
    return makeError(ErrorKind::Device,
                     "{0} is of interface version {1}, and this program "
                     "expects {2}; install both from one build",
                     kLibrary, interface->version, ISTHMUS_CUDA_INTERFACE_VERSION);
  return interface;
}

class CudaDevice;

class LibraryKernel : public PreparedKernel {
public:
  LibraryKernel(const IsthmusCudaInterface &cuda, IsthmusCudaKernel *kernel)
      : kernel(kernel), cuda_(cuda) {
    readInfo();
  }
  int64_t workspaceBytes() const override { return info_.workspaceBytes; }
  bool isSubstitute() const override { return info_.isSubstitute != 0; }
  void run(const KernelArgs &) override { ISTHMUS_UNREACHABLE("run but through its device"); }

  bool wasLaunched() const { return wasLaunched_; }
  void launched() {
    if (!wasLaunched_)
      readInfo(); // the first launch may have chosen another kernel
    wasLaunched_ = true;
  }

  IsthmusCudaKernel *const kernel; // owned by the library

private:
  void readInfo() {
    cuda_.describeKernel(kernel, &info_);
    library = info_.library;
  }

  const IsthmusCudaInterface &cuda_;
  IsthmusCudaKernelInfo info_ = {};
  bool wasLaunched_ = false;
};

class CudaDevice : public Device {
public:
  CudaDevice(const IsthmusCudaInterface &cuda, IsthmusCudaDevice *device, const CudaOptions &o)
      : cuda_(cuda), device_(device), options_(o), name_("cuda:" + std::to_string(o.index)) {
    IsthmusCudaInfo info;
    cuda_.describe(device_, &info);
    target_.name = std::string("cuda ") + info.target;
    target_.deviceKind = "cuda";
    target_.flopsPerSecond = info.flopsPerSecond;
    target_.bytesPerSecond = info.bytesPerSecond;
    target_.linkBytesPerSecond = info.linkBytesPerSecond;
    llvm::copy(info.contractionFlopsPerSecond, target_.contractionFlopsPerSecond.begin());
    records_ = info.records != 0;
    waitsForEach_ = !records_;
    // cuDNN's tensor core kernels read and write channels last; for other layouts it adds copies.
    target_.channelsLast = {DType::BF16, DType::F16};
    if (o.tf32)
      target_.channelsLast.push_back(DType::F32);
    target_.fusesBias = true;
    target_.measured = o.costs;
    target_.workspace = [this](const OpCall &call) -> llvm::Expected<int64_t> {
      auto kernel = prepare(call);
      if (!kernel)
        return kernel.takeError();
      return (*kernel)->workspaceBytes();
    };
  }
  ~CudaDevice() override { cuda_.close(device_); }

  std::string name() const override { return name_; }
  llvm::Expected<std::unique_ptr<Device>> another(llvm::StringRef name) override {
    CudaOptions o = options_;
    if (!name.consume_front("cuda:") || name.getAsInteger(10, o.index))
      return makeError(ErrorKind::Device,
                       "the graph has nodes on '{0}', and the step runs on GPUs; expected devices "
                       "cuda:0, cuda:1, ..., which --devices gives in their place",
                       name);
    auto device = makeCudaDevice(o);
    if (device)
      return device;
    return addRemedy(device.takeError(),
                     {"devices", name_, "run several stages on each of those that there are"});
  }
  const Target &target() override { return target_; }

  llvm::Expected<DeviceAddress> allocate(int64_t bytes) override {
    void *address = nullptr;
    const char *failure = cuda_.allocate(device_, bytes, &address);
    if (!failure)
      return static_cast<DeviceAddress>(address);
    std::string why = failure;
    auto m = memory();
    if (!m) {
      llvm::consumeError(m.takeError());
      return failed(why);
    }
    return makeError(ErrorKind::OutOfMemory,
                     "{0}: out of memory: {1:F1} MiB asked for, {2:F1} of {3:F1} MiB free", name_,
                     bytes / 1048576.0, (*m)->freeBytes / 1048576.0, (*m)->totalBytes / 1048576.0);
  }
  llvm::Expected<std::optional<DeviceMemory>> memory() override {
    DeviceMemory m = {};
    if (const char *failure = cuda_.memory(device_, &m.freeBytes, &m.totalBytes))
      return failed(failure);
    return m;
  }
  void release(DeviceAddress address) override { cuda_.release(device_, address); }
  llvm::Error write(DeviceAddress to, const void *from, int64_t bytes) override {
    return checked(cuda_.write(device_, to, from, bytes));
  }
  llvm::Error read(void *to, DeviceAddress from, int64_t bytes) override {
    return checked(cuda_.read(device_, to, from, bytes));
  }

  llvm::Expected<DeviceAddress> allocateOnHost(int64_t bytes) override {
    void *address = nullptr;
    if (const char *failure = cuda_.allocateOnHost(device_, bytes, &address))
      return failed(llvm::formatv("{0} ({1:F1} MiB asked for)", failure, bytes / 1048576.0).str());
    return static_cast<DeviceAddress>(address);
  }
  void releaseOnHost(DeviceAddress address) override { cuda_.releaseOnHost(device_, address); }
  llvm::Error startTransfer(const TransferArgs &t) override {
    const bool isToHost = t.direction == TransferDirection::ToHost;
    const char *failure = cuda_.startTransfer(device_, t.id, isToHost, t.to, t.from, t.bytes);
    return failure ? inStep(failure) : llvm::Error::success();
  }
  llvm::Error waitForTransfer(uint32_t id) override {
    const char *failure = cuda_.waitForTransfer(device_, id);
    return failure ? inStep(failure) : llvm::Error::success();
  }

  llvm::Expected<PreparedKernel *> prepare(const OpCall &call) override {
    std::unique_ptr<LibraryKernel> &kernel = prepared_[callKey(call)];
    if (!kernel) {
      IsthmusCudaKernel *made = nullptr;
      FlatCall flat(call);
      if (const char *failure = cuda_.prepare(device_, &flat.view(), &made))
        return failed(failure);
      kernel = std::make_unique<LibraryKernel>(cuda_, made);
    }
    return kernel.get();
  }

  llvm::Error begin(const RandomKey &random) override {
    ++steps_;
    return checked(cuda_.begin(device_, random.seed, random.step));
  }
  llvm::Error launch(PreparedKernel &prepared, KernelArgs args) override {
    auto &kernel = static_cast<LibraryKernel &>(prepared);
    const char *failure =
        cuda_.launch(device_, kernel.kernel, args.operands.data(), int64_t(args.operands.size()),
                     args.results.data(), int64_t(args.results.size()), args.workspace);
    if (failure)
      return inStep(failure);
    kernel.launched();
    return llvm::Error::success();
  }
  llvm::Error finish() override {
    const char *failure = cuda_.finish(device_);
    return failure ? inStep(failure) : llvm::Error::success();
  }

  std::unique_ptr<Transport> transportOver(std::unique_ptr<Transport> host) override {
    return makeDeviceTransport(*this, std::move(host));
  }
  llvm::Expected<std::unique_ptr<Channel>> newChannel(bool sends) override;

  llvm::Expected<std::unique_ptr<Recording>>
  record(llvm::ArrayRef<PreparedKernel *> kernels,
         llvm::function_ref<llvm::Error()> launches) override;

  std::vector<std::string> takeNotes() override {
    while (const char *note = cuda_.takeNote(device_))
      notes_.push_back(name_ + ": " + note);
    return std::exchange(notes_, {});
  }

private:
  class Recorded;
  class ChannelEnd;

  llvm::Error capture(llvm::function_ref<llvm::Error()> launches, std::unique_ptr<Recorded> &made);

  llvm::Error failed(const std::string &what) const {
    return makeError(ErrorKind::Device, "{0}: {1}", name_, what);
  }
  llvm::Error checked(const char *failure) const {
    return failure ? failed(failure) : llvm::Error::success();
  }
  // Kernels run asynchronously, so a later call may report the fault of an earlier kernel.
  llvm::Error inStep(const std::string &what) const {
    llvm::Error e = failed(llvm::formatv("step {0}: {1}", steps_, what).str());
    if (waitsForEach_)
      return e;
    return addNote(std::move(e), "the fault may be of any kernel of this step up to here; "
                                 "ISTHMUS_CUDA_SYNC=1 waits for each, and then the error names the "
                                 "node");
  }

  const IsthmusCudaInterface &cuda_;
  IsthmusCudaDevice *const device_;
  const CudaOptions options_;
  const std::string name_;
  Target target_;
  llvm::StringMap<std::unique_ptr<LibraryKernel>> prepared_;
  bool records_ = true;
  bool waitsForEach_ = false;
  int64_t steps_ = 0; // steps begun since the device was opened
  std::vector<std::string> notes_;
};

class CudaDevice::Recorded : public Recording {
public:
  Recorded(CudaDevice &device, IsthmusCudaRecording *recording)
      : device_(device), recording_(recording) {}
  ~Recorded() override { device_.cuda_.dropRecording(recording_); }
  llvm::Error replay() override {
    const char *failure = device_.cuda_.replay(device_.device_, recording_);
    return failure ? device_.inStep(failure) : llvm::Error::success();
  }

private:
  CudaDevice &device_;
  IsthmusCudaRecording *const recording_;
};

class CudaDevice::ChannelEnd : public Channel {
public:
  ChannelEnd(CudaDevice &device, IsthmusCudaChannel *channel)
      : device_(device), channel_(channel) {}
  ~ChannelEnd() override { device_.cuda_.closeChannel(channel_); }

  llvm::Expected<std::string> makeId() override {
    const char *id = nullptr;
    if (llvm::Error e = device_.checked(device_.cuda_.channelId(channel_, &id)))
      return e;
    return std::string(id);
  }
  llvm::Expected<bool> open(llvm::StringRef id) override {
    return told(device_.cuda_.openChannel, id.str().c_str());
  }
  llvm::Expected<bool> isOpen() override { return told(device_.cuda_.channelIsOpen); }

  llvm::Error post(uint64_t message) override {
    return device_.checked(device_.cuda_.postMessage(channel_, message));
  }
  llvm::Error start(uint64_t message, char *data, int64_t bytes) override {
    return device_.checked(device_.cuda_.startMessage(channel_, message, data, bytes));
  }
  llvm::Expected<bool> isDone(uint64_t message) override {
    return told(device_.cuda_.messageIsDone, message);
  }

private:
  template <typename F, typename... Args> llvm::Expected<bool> told(F function, Args... args) {
    int32_t isSo = 0;
    if (const char *failure = function(channel_, args..., &isSo))
      return device_.failed(failure);
    return isSo != 0;
  }

  CudaDevice &device_;
  IsthmusCudaChannel *const channel_;
};

llvm::Expected<std::unique_ptr<Channel>> CudaDevice::newChannel(bool sends) {
  IsthmusCudaChannel *channel = nullptr;
  if (llvm::Error e = checked(cuda_.newChannel(device_, sends, &channel)))
    return e;
  return channel ? std::make_unique<ChannelEnd>(*this, channel) : nullptr;
}

// Records the launches. Always ends the recording, also after an error.
llvm::Error CudaDevice::capture(llvm::function_ref<llvm::Error()> launches,
                                std::unique_ptr<Recorded> &made) {
  if (llvm::Error e = checked(cuda_.startRecording(device_)))
    return e;
  llvm::Error launched = launches();
  IsthmusCudaRecording *recording = nullptr;
  llvm::Error ended = checked(cuda_.endRecording(device_, &recording));
  if (recording)
    made = std::make_unique<Recorded>(*this, recording);
  return llvm::joinErrors(std::move(launched), std::move(ended));
}

// A step with kernels that never ran is not recorded: the first launch loads a kernel's code, which
// a recording may not allow. A recording is replayed at once, because recording alone computes
// nothing. If recording or the first replay fails, no kernel has run yet, so the kernels are
// launched one by one, in this step and all later ones.
llvm::Expected<std::unique_ptr<Recording>>
CudaDevice::record(llvm::ArrayRef<PreparedKernel *> kernels,
                   llvm::function_ref<llvm::Error()> launches) {
  bool allRan = llvm::all_of(kernels, [](const PreparedKernel *k) {
    return !k || static_cast<const LibraryKernel *>(k)->wasLaunched();
  });
  if (records_ && allRan) {
    std::unique_ptr<Recorded> made;
    llvm::Error failed = capture(launches, made);
    if (!failed)
      failed = made->replay();
    if (!failed)
      return std::unique_ptr<Recording>(std::move(made));
    records_ = false;
    notes_.push_back("steps are run kernel by kernel, because recording one failed: " +
                     plainMessage(std::move(failed)));
  }
  if (llvm::Error e = launches())
    return e;
  return nullptr;
}

} // namespace

llvm::Expected<std::string> cudaLibraries() {
  auto interface = loadInterface();
  if (!interface)
    return interface.takeError();
  return std::string((*interface)->libraries());
}

// The driver's GPUs. Error: there is no driver.
static llvm::Expected<int32_t> countDevices(const IsthmusCudaInterface &cuda) {
  int32_t count = 0;
  if (const char *failure = cuda.countDevices(&count))
    return makeError(ErrorKind::Device, "{0} ({1})", failure, cuda.description);
  return count;
}

llvm::Expected<int> countCudaDevices() {
  auto interface = loadInterface();
  if (!interface)
    return interface.takeError();
  return countDevices(**interface);
}

llvm::Expected<std::unique_ptr<Device>> makeCudaDevice(const CudaOptions &options) {
  auto interface = loadInterface();
  if (!interface)
    return interface.takeError();
  const IsthmusCudaInterface &cuda = **interface;
  auto count = countDevices(cuda);
  if (!count)
    return count.takeError();
  if (options.index < 0 || options.index >= *count)
    return makeError(ErrorKind::Device, "there is no GPU {0}: {1} found", options.index, *count);
  IsthmusCudaOptions opened = {options.tf32};
  IsthmusCudaDevice *device = nullptr;
  if (const char *failure = cuda.open(options.index, &opened, &device))
    return makeError(ErrorKind::Device, "{0}", failure);
  return std::make_unique<CudaDevice>(cuda, device, options);
}

} // namespace isthmus
