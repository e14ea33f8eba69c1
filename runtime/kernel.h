// The interface between a device and its kernels.
//
// A kernel is registered for an op. Its `prepare` either declines a call (null) or returns a
// prepared kernel, which states its workspace and runs the call any number of times. The table
// tries the kernels of an op in order of registration, so fast ones are registered before the plain
// one.
#pragma once

#include "ir/op_def.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace isthmus {

// The key of random ops, besides their `stream` attribute and the element's index.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
};

// Pointers to whole dense tensors, in the order of the call's types; `workspace` has the bytes that
// the kernel stated, aligned to 64. A result may be at the address of an operand only as the row's
// `inPlace` allows.
struct KernelArgs {
  llvm::ArrayRef<const void *> operands;
  llvm::ArrayRef<void *> results;
  void *workspace = nullptr;
  const RandomKey *random = nullptr; // in memory that the device can read; set for every random op
};

class PreparedKernel {
public:
  virtual ~PreparedKernel() = default;
  // The bytes of scratch memory that run() uses; known before planning.
  virtual int64_t workspaceBytes() const { return 0; }
  virtual void run(const KernelArgs &args) = 0;
  // Whether this is a slow kernel that replaces a library's, because that refused the call or
  // failed.
  virtual bool isSubstitute() const { return false; }

  llvm::StringRef library; // as in Kernel::library
  int threads = 1;         // as in KernelOptions
};

std::string callTitle(const OpCall &call); // "conv(f32[1,3,8,8], f32[4,3,3,3])", for people

struct KernelOptions {
  int threads = 1;             // CPU only
  const void *queue = nullptr; // GPU only: state shared by its kernels, see kernels/cuda/queue.h
};

struct Kernel {
  llvm::StringRef op;
  llvm::StringRef library; // "plain", "onednn"; printed by `isthmus ops`
  std::unique_ptr<PreparedKernel> (*prepare)(const OpCall &call, const KernelOptions &options);
};

class KernelTable {
public:
  void add(const Kernel &k) { byOp_[k.op].push_back(k); }
  llvm::ArrayRef<Kernel> of(llvm::StringRef op) const {
    auto it = byOp_.find(op);
    return it == byOp_.end() ? llvm::ArrayRef<Kernel>() : llvm::makeArrayRef(it->second);
  }
  // The first kernel that accepts the call; an error that names op and types if none does.
  llvm::Expected<std::unique_ptr<PreparedKernel>> prepare(const OpCall &call,
                                                          const KernelOptions &options) const;
  // All kernels that accept the call, best first; the same error if none does.
  llvm::Expected<std::vector<std::unique_ptr<PreparedKernel>>>
  prepareAll(const OpCall &call, const KernelOptions &options) const;

private:
  llvm::StringMap<std::vector<Kernel>> byOp_;
};

// A kernel without state or workspace: a function of the call and the pointers.
using PlainFunction = void (*)(const OpCall &call, const KernelArgs &args);
std::unique_ptr<PreparedKernel> preparePlain(const OpCall &call, PlainFunction run);

} // namespace isthmus
