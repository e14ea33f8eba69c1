#include "runtime/cpu_device.h"
#include "ir/host_memory.h"
#include "ir/system_limits.h"
#include "runtime/link.h"
#include "runtime/team.h"

#include <cstdlib>
#include <cstring>
#include <thread>

namespace isthmus {
namespace {

struct InstructionSet {
  const char *name;
  double speed; // relative to Target's defaults
};

// Speeds are powers of two, fitted to whole steps of networks on one thread. Plans that only
// recompute depend on ratios of costs alone, which are the same for all instruction sets.
InstructionSet instructionSet() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f"))
    return {"avx512", 4};
  if (__builtin_cpu_supports("avx2"))
    return {"avx2", 2};
  return {"x86-64", 1};
#else
  return {"generic", 1};
#endif
}

// The threads that OMP_NUM_THREADS asks for, or one for each core that this process may use.
int defaultThreads() {
  const char *asked = std::getenv("OMP_NUM_THREADS");
  const int threads = asked ? std::atoi(asked) : 0;
  return threads > 0 ? threads : std::min(availableCores(), omp_get_num_procs());
}

class CpuDevice : public Device {
public:
  CpuDevice(const KernelTable &kernels, const CpuOptions &o)
      : kernels_(kernels), options_(o), slowedTo_(o.linkBytesPerSecond) {
    constexpr double kCopied = 5e9; // bytes per second, one thread
    threads_ = o.threads > 0 ? o.threads : defaultThreads();
    target_.linkBytesPerSecond = slowedTo_ > 0 ? slowedTo_ : kCopied;
    const InstructionSet isa = instructionSet();
    target_.name = std::string("cpu ") + isa.name + " threads=" + std::to_string(threads_);
    target_.flopsPerSecond = isa.speed * 50e9 * threads_;
    target_.bytesPerSecond = isa.speed * 8e9 * std::min(threads_, 4);
    target_.launchSeconds /= isa.speed;
    target_.measured = o.costs;
    target_.workspace = [this](const OpCall &call) -> llvm::Expected<int64_t> {
      auto kernel = prepare(call);
      if (!kernel)
        return kernel.takeError();
      return (*kernel)->workspaceBytes();
    };
  }

  std::string name() const override { return "cpu:0"; }
  llvm::Expected<std::unique_ptr<Device>> another(llvm::StringRef name) override {
    if (llvm::Error e = checkKind(name))
      return e;
    return makeCpuDevice(kernels_, options_);
  }
  bool sharesHostMemory() const override { return true; }
  const Target &target() override { return target_; }

  llvm::Expected<DeviceAddress> allocate(int64_t bytes) override {
    auto p = allocateHostMemory(bytes, name());
    if (!p)
      return p.takeError();
    return *p;
  }
  void release(DeviceAddress p) override { releaseHostMemory(static_cast<char *>(p)); }
  llvm::Error write(DeviceAddress to, const void *from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
    return llvm::Error::success();
  }
  llvm::Error read(void *to, DeviceAddress from, int64_t bytes) override {
    std::memcpy(to, from, bytes);
    return llvm::Error::success();
  }

  llvm::Expected<DeviceAddress> allocateOnHost(int64_t bytes) override { return allocate(bytes); }
  void releaseOnHost(DeviceAddress p) override { release(p); }

  llvm::Expected<PreparedKernel *> prepare(const OpCall &call) override {
    std::unique_ptr<PreparedKernel> &kernel = prepared_[callKey(call)];
    if (!kernel) {
      const int threads = threadsFor(call);
      TeamSize team(threads);
      auto made = kernels_.prepare(call, {.threads = threads});
      if (!made)
        return made.takeError();
      kernel = std::move(*made);
    }
    return kernel.get();
  }
  llvm::Error begin(const RandomKey &random) override {
    random_ = random;
    return llvm::Error::success();
  }
  llvm::Error launch(PreparedKernel &kernel, KernelArgs args) override {
    TeamSize team(kernel.threads);
    args.random = &random_;
    kernel.run(args);
    return llvm::Error::success();
  }
  llvm::Error startTransfer(const TransferArgs &t) override {
    linkOf(t.direction).start(t.id, t.to, t.from, t.bytes);
    return llvm::Error::success();
  }
  llvm::Error waitForTransfer(uint32_t id) override {
    for (std::optional<LinkThread> &link : links_)
      if (link)
        link->waitFor(id);
    return llvm::Error::success();
  }
  llvm::Error finish() override { return llvm::Error::success(); }
  std::unique_ptr<Transport> transportOver(std::unique_ptr<Transport> host) override {
    return host;
  }

protected:
  // A small call runs on one thread, because waking a second one takes longer than it saves, and
  // much longer beside other programs. The number depends on nothing but the call and `--threads`,
  // so clones have the bits of their originals.
  int threadsFor(const OpCall &call) const {
    constexpr double kSmall = 10e-6; // seconds on one thread, by the estimate
    const Cost c = costOf(call);
    const double seconds = std::max(c.flops * threads_ / target_.flopsPerSecond,
                                    c.bytes * std::min(threads_, 4) / target_.bytesPerSecond);
    return seconds < kSmall ? 1 : threads_;
  }

  LinkThread &linkOf(TransferDirection d) {
    std::optional<LinkThread> &link = links_[size_t(d)];
    return link ? *link : link.emplace(slowedTo_);
  }

  static llvm::Error checkKind(llvm::StringRef name) {
    if (name == "cpu" || name.startswith("cpu:"))
      return llvm::Error::success();
    return makeError(ErrorKind::Device,
                     "the graph has nodes on '{0}', and the step runs on a cpu; expected devices "
                     "cpu:0, cpu:1, ..., which --devices gives in their place",
                     name);
  }

  const KernelTable &kernels_;
  const CpuOptions options_;
  int threads_;
  RandomKey random_;
  Target target_;
  llvm::StringMap<std::unique_ptr<PreparedKernel>> prepared_;
  double slowedTo_;                    // bytes per second of each link; 0: not slowed
  std::optional<LinkThread> links_[2]; // by direction; made at the first transfer
};

class CountingDevice : public CpuDevice {
public:
  using CpuDevice::CpuDevice;
  std::string name() const override { return "counting"; }
  llvm::Expected<std::unique_ptr<Device>> another(llvm::StringRef) override {
    return makeCountingDevice(kernels_, options_);
  }
  bool computes() const override { return false; }
  bool sharesHostMemory() const override { return false; }
  // Returns an address that is never read, so that large models can be counted on small machines.
  llvm::Expected<DeviceAddress> allocate(int64_t) override {
    return reinterpret_cast<DeviceAddress>(4096);
  }
  void release(DeviceAddress) override {}
  llvm::Error write(DeviceAddress, const void *, int64_t) override {
    return llvm::Error::success();
  }
  llvm::Error read(void *to, DeviceAddress, int64_t bytes) override {
    std::memset(to, 0, bytes);
    return llvm::Error::success();
  }
  llvm::Error launch(PreparedKernel &, KernelArgs) override { return llvm::Error::success(); }
  llvm::Error startTransfer(const TransferArgs &) override { return llvm::Error::success(); }
};

} // namespace

std::unique_ptr<Device> makeCpuDevice(const KernelTable &kernels, const CpuOptions &o) {
  return std::make_unique<CpuDevice>(kernels, o);
}

std::unique_ptr<Device> makeCountingDevice(const KernelTable &kernels, const CpuOptions &o) {
  return std::make_unique<CountingDevice>(kernels, o);
}

} // namespace isthmus
