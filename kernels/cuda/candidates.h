// Kernels of one call, best first. The first launch takes the first that runs; later ones keep to
// it, because a clone must have its origin's bits, and a failure after that is an error.
#pragma once

#include "kernels/cuda/queue.h"
#include "runtime/kernel.h"

namespace isthmus::cuda {

constexpr llvm::StringLiteral kOwnLibrary = "cuda"; // of our own kernels

class Candidates : public PreparedKernel {
public:
  // `kernels`: one or more. Scratch memory is what the first wants, so those that want more are
  // left out. `call` names it in notes.
  Candidates(const Queue &queue, std::string call,
             std::vector<std::unique_ptr<PreparedKernel>> kernels);

  int64_t workspaceBytes() const override { return workspaceBytes_; }
  // Our own kernels are slow ones beside a library's.
  bool isSubstitute() const override { return library == kOwnLibrary; }
  void run(const KernelArgs &args) override;

private:
  const char *failureOf(PreparedKernel &kernel, const KernelArgs &args);

  const Queue &queue_;
  const std::string call_;
  std::vector<std::unique_ptr<PreparedKernel>> kernels_; // the first is the one in use
  const int64_t workspaceBytes_;
  bool hasRun_ = false;
};

} // namespace isthmus::cuda
