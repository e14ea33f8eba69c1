#include "kernels/cuda/candidates.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace isthmus::cuda {

Candidates::Candidates(const Queue &queue, std::string call,
                       std::vector<std::unique_ptr<PreparedKernel>> kernels)
    : queue_(queue), call_(std::move(call)), kernels_(std::move(kernels)),
      workspaceBytes_(kernels_.front()->workspaceBytes()) {
  llvm::erase_if(kernels_, [&](const auto &k) { return k->workspaceBytes() > workspaceBytes_; });
  library = kernels_.front()->library;
}

// The failure that the kernel or the driver reports; null if there is none.
const char *Candidates::failureOf(PreparedKernel &kernel, const KernelArgs &args) {
  queue_.failure = nullptr;
  kernel.run(args);
  const char *ofLaunch = queue_.launchFailure ? queue_.launchFailure() : nullptr;
  return queue_.failure ? queue_.failure : ofLaunch;
}

void Candidates::run(const KernelArgs &args) {
  if (hasRun_)
    return kernels_.front()->run(args);
  while (const char *why = failureOf(*kernels_.front(), args)) {
    if (kernels_.size() == 1) {
      queue_.failure = why;
      return;
    }
    std::string failed = kernels_.front()->library.str(), reason = why;
    kernels_.erase(kernels_.begin());
    queue_.failure = nullptr;
    library = kernels_.front()->library;
    llvm::StringRef next = isSubstitute()      ? "our own kernel, which is slow,"
                           : library == failed ? "its next choice"
                                               : library;
    queue_.note(llvm::formatv("{0}: {1} fails ({2}), so {3} runs", call_, failed, reason, next));
  }
  hasRun_ = true;
}

} // namespace isthmus::cuda
