// The device interface. A device allocates memory for the arena and for graph inputs (parameters,
// data), prepares kernels, and runs them on pointers into both. It knows nothing of graphs or
// plans.
//
// All calls on one device must come from one thread. Addresses are device addresses: the host never
// reads through them.
#pragma once

#include "ir/target.h"
#include "runtime/channel.h"
#include "runtime/kernel.h"
#include "runtime/transport.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>

namespace isthmus {

using DeviceAddress = char *;

// Free and total memory as the device reports it.
struct DeviceMemory {
  int64_t freeBytes, totalBytes;
};

enum class TransferDirection : uint8_t { ToHost, ToDevice };

// The recorded launches of a step; `replay` is called between `begin` and `finish`. Must be
// destroyed before its device.
class Recording {
public:
  virtual ~Recording() = default;
  virtual llvm::Error replay() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  virtual std::string name() const = 0; // "cpu:0"
  // A second device of the same kind and options, for another place of a step. Error: the name is
  // one of another kind, or of a device that is not there.
  virtual llvm::Expected<std::unique_ptr<Device>> another(llvm::StringRef name) = 0;
  // The device as passes see it: alignment, workspaces, costs. Valid as long as the device.
  virtual const Target &target() = 0;
  // Whether values are computed; the counting device only counts bytes.
  virtual bool computes() const { return true; }
  // Whether kernels may read the host's memory in place of memory that `allocate` gave.
  virtual bool sharesHostMemory() const { return false; }

  // Memory. Errors state the requested and the available bytes. Zero bytes are allowed.
  virtual llvm::Expected<DeviceAddress> allocate(int64_t bytes) = 0;
  virtual void release(DeviceAddress address) = 0;
  virtual llvm::Error write(DeviceAddress to, const void *from, int64_t bytes) = 0;
  virtual llvm::Error read(void *to, DeviceAddress from, int64_t bytes) = 0;

  // None if the device shares its memory with other programs, so that the figures would mean
  // nothing.
  virtual llvm::Expected<std::optional<DeviceMemory>> memory() { return std::nullopt; }

  // Host memory for offloads. Errors as for `allocate`.
  virtual llvm::Expected<DeviceAddress> allocateOnHost(int64_t bytes) = 0;
  virtual void releaseOnHost(DeviceAddress address) = 0;

  // A kernel for the call, owned by the device and shared by equal calls.
  virtual llvm::Expected<PreparedKernel *> prepare(const OpCall &call) = 0;

  // A step: `begin` sets the key of its random numbers, then kernels are launched in order. Their
  // results may be read after `finish`, which may also be called between launches. `launch` sets
  // `args.random`.
  virtual llvm::Error begin(const RandomKey &random) = 0;
  virtual llvm::Error launch(PreparedKernel &kernel, KernelArgs args) = 0;

  // Transfers of a step. Those of one direction run one after the other, in the order of their
  // starts. A transfer begins after the kernels launched before it and runs in parallel with those
  // launched after it. Kernels launched after the wait may read its destination. `id` distinguishes
  // transfers under way; each one must be waited for.
  struct TransferArgs {
    uint32_t id;
    TransferDirection direction;
    DeviceAddress to;
    const char *from;
    int64_t bytes;
  };
  virtual llvm::Error startTransfer(const TransferArgs &t) = 0;
  virtual llvm::Error waitForTransfer(uint32_t id) = 0;

  virtual llvm::Error finish() = 0;

  // Messages between devices of a step. `host` is this device's end for messages in the host's
  // memory; what is returned is its end for messages in its own, and takes `host` over. The device
  // must outlive it.
  virtual std::unique_ptr<Transport> transportOver(std::unique_ptr<Transport> host) = 0;
  // A channel to another device (`sends`) or from it; null if there are none for this device, and
  // messages go through the host's memory.
  virtual llvm::Expected<std::unique_ptr<Channel>> newChannel(bool sends) {
    (void)sends;
    return nullptr;
  }

  // Runs a step: calls `launches`, which launches `kernels`. A device that can repeat the same
  // launches on the same addresses faster returns a recording of them. Other devices return null,
  // and so does a device that is not ready to record: it is asked again at the next step. If
  // recording fails, `launches` is called a second time.
  virtual llvm::Expected<std::unique_ptr<Recording>>
  record(llvm::ArrayRef<PreparedKernel *> kernels, llvm::function_ref<llvm::Error()> launches) {
    (void)kernels;
    if (llvm::Error e = launches())
      return e;
    return nullptr;
  }

  // Remarks for users on the device and its libraries that are no errors. Each is returned once.
  virtual std::vector<std::string> takeNotes() { return {}; }
};

} // namespace isthmus
