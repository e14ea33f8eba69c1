// The device interface. A device owns one arena and the memory of what is always there (parameters,
// inputs), prepares kernels, and runs them on pointers into both. It knows nothing of graphs or
// plans.
//
// Calls on one device come from one thread. Addresses are the device's own: the host never reads
// through them.
#pragma once

#include "ir/target.h"
#include "runtime/kernel.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>

namespace isthmus {

using DeviceAddress = char *;

// Memory as the device itself counts it.
struct DeviceMemory {
  int64_t freeBytes, totalBytes;
};

enum class TransferDirection : uint8_t { ToHost, ToDevice };

// The launches of a step, between `begin` and `finish`. Ends before its device.
class Recording {
public:
  virtual ~Recording() = default;
  virtual llvm::Error replay() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  virtual std::string name() const = 0; // "cpu:0"
  // What passes may know: alignment, workspaces, costs. Valid as long as the device.
  virtual const Target &target() = 0;
  // Whether values are computed; the counting device only keeps the books.
  virtual bool computes() const { return true; }

  // Memory. Errors say how much was asked for and how much there was. Zero bytes are allowed.
  virtual llvm::Expected<DeviceAddress> allocate(int64_t bytes) = 0;
  virtual void release(DeviceAddress address) = 0;
  virtual llvm::Error write(DeviceAddress to, const void *from, int64_t bytes) = 0;
  virtual llvm::Error read(void *to, DeviceAddress from, int64_t bytes) = 0;

  // None where the device shares its memory with whatever else runs, so that the figures would mean
  // nothing.
  virtual llvm::Expected<std::optional<DeviceMemory>> memory() { return std::nullopt; }

  // The host's memory that transfers go to. Errors as of `allocate`.
  virtual llvm::Expected<DeviceAddress> allocateOnHost(int64_t bytes) = 0;
  virtual void releaseOnHost(DeviceAddress address) = 0;

  // A kernel for the call, owned by the device and shared by equal calls.
  virtual llvm::Expected<PreparedKernel *> prepare(const OpCall &call) = 0;

  // A step: `begin` gives the key of its random numbers, then kernels are launched, in order. What
  // they write is there after `finish`, which may come between launches too. `launch` fills in
  // `args.random`.
  virtual llvm::Error begin(const RandomKey &random) = 0;
  virtual llvm::Error launch(PreparedKernel &kernel, KernelArgs args) = 0;

  // Transfers of a step, in the order of their starts, those of each direction one after the other.
  // One begins after what was launched before it, and goes on beside what is launched after it.
  // What it writes is there for what is launched after the wait. `id` tells those under way apart;
  // each is waited for.
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

  // Makes the launches of a step, those of `kernels`, through `launches`. A device that can run the
  // same kernels on the same addresses again faster than one by one gives back what does so; others
  // null, and those that are not ready to: they are asked again at the next step. `launches` is
  // called a second time where its launches were to be recorded and that failed.
  virtual llvm::Expected<std::unique_ptr<Recording>>
  record(llvm::ArrayRef<PreparedKernel *> kernels, llvm::function_ref<llvm::Error()> launches) {
    (void)kernels;
    if (llvm::Error e = launches())
      return e;
    return nullptr;
  }

  // What people should know of the device and its libraries, and did not stop it: each text once.
  virtual std::vector<std::string> takeNotes() { return {}; }
};

} // namespace isthmus
