// The interface between a device and its kernels.
//
// A kernel is offered for an op; asked to `prepare` a call it either declines (null) or gives a
// prepared kernel that says how much scratch memory it wants and runs the call any number of times.
// The table tries the kernels of an op in order of registration, so fast ones come before the plain
// one.
#pragma once

#include "ir/op_def.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace isthmus {

// What random ops are keyed by, beside their `stream` attribute and the element's index.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t step = 0;
};

// Pointers to whole dense tensors, in the order of the call's types; `workspace` has the bytes
// asked for, aligned to 64. A result may be at the address of an operand only as the row's
// `inPlace` allows.
struct KernelArgs {
  llvm::ArrayRef<const void *> operands;
  llvm::ArrayRef<void *> results;
  void *workspace = nullptr;
  const RandomKey *random = nullptr; // where the device can read it; given to every random op
};

class PreparedKernel {
public:
  virtual ~PreparedKernel() = default;
  // Bytes of scratch memory while it runs; known before anything is planned.
  virtual int64_t workspaceBytes() const { return 0; }
  virtual void run(const KernelArgs &args) = 0;
  // Whether it is a slow kernel in place of a library's, which refused the call or failed.
  virtual bool isSubstitute() const { return false; }

  llvm::StringRef library; // whose kernel it is, as the table names it
};

std::string callText(const OpCall &call); // "conv(f32[1,3,8,8], f32[4,3,3,3])", for people

struct KernelOptions {
  int threads = 1;             // of a CPU
  const void *queue = nullptr; // what the kernels of a GPU share: kernels/cuda/queue.h
};

struct Kernel {
  llvm::StringRef op;
  llvm::StringRef library; // "plain", "onednn": told by `isthmus ops`
  std::unique_ptr<PreparedKernel> (*prepare)(const OpCall &call, const KernelOptions &options);
};

class KernelTable {
public:
  void add(const Kernel &k) { byOp_[k.op].push_back(k); }
  llvm::ArrayRef<Kernel> of(llvm::StringRef op) const {
    auto it = byOp_.find(op);
    return it == byOp_.end() ? llvm::ArrayRef<Kernel>() : llvm::makeArrayRef(it->second);
  }
  // The first kernel that takes the call; an error that names op and types if none does.
  llvm::Expected<std::unique_ptr<PreparedKernel>> prepare(const OpCall &call,
                                                          const KernelOptions &options) const;
  // All that take the call, best first; the same error if none does.
  llvm::Expected<std::vector<std::unique_ptr<PreparedKernel>>>
  prepareAll(const OpCall &call, const KernelOptions &options) const;

private:
  llvm::StringMap<std::vector<Kernel>> byOp_;
};

// A kernel without state or workspace: a function of the call and the pointers.
using PlainFunction = void (*)(const OpCall &call, const KernelArgs &args);
std::unique_ptr<PreparedKernel> preparePlain(const OpCall &call, PlainFunction run);

} // namespace isthmus
