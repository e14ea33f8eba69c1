// Candidate kernels for one call, best first. The first run selects the first candidate that does
// not fail; later runs keep it, because a clone must have the same bits as its origin. A failure in
// a later run is an error.
#pragma once

#include "kernels/cuda/queue.h"
#include "runtime/kernel.h"

namespace isthmus::cuda {

constexpr llvm::StringLiteral kOwnLibrary = "cuda"; // the name of our own kernels

class Candidates : public PreparedKernel {
public:
  // `kernels` must not be empty. The workspace is that of the first kernel; kernels that need more
  // are discarded. `call` is the text that names the call in notes.
  Candidates(const Queue &queue, std::string call,
             std::vector<std::unique_ptr<PreparedKernel>> kernels);

  int64_t workspaceBytes() const override { return workspaceBytes_; }
  // Our own kernels are slow compared with a library's.
  bool isSubstitute() const override { return library == kOwnLibrary; }
  void run(const KernelArgs &args) override;

private:
  const char *failureOf(PreparedKernel &kernel, const KernelArgs &args);

  const Queue &queue_;
  const std::string call_;
  std::vector<std::unique_ptr<PreparedKernel>> kernels_; // the front is the one in use
  const int64_t workspaceBytes_;
  bool hasRun_ = false;
};

} // namespace isthmus::cuda
