// Exit codes of the command line, and errors that only the command line makes.
#pragma once

#include "ir/diagnostics.h"

namespace isthmus {

constexpr int kDone = 0, kBadInput = 1, kBadUsage = 2, kNotMet = 3, kDiffers = 4, kFailed = 5,
              kInterrupted = 130;

// An error with an exit code of its own: wrong usage, or results that differ.
class ExitError : public llvm::ErrorInfo<ExitError, DiagError> {
public:
  static char ID;
  ExitError(std::vector<Diag> d, int code) : ErrorInfo(std::move(d)), code(code) {}

  int code;
};

template <typename... Args> llvm::Error usageError(const char *format, Args &&...args) {
  return llvm::make_error<ExitError>(std::vector{makeDiag(format, std::forward<Args>(args)...)},
                                     kBadUsage);
}
template <typename... Args> llvm::Error differsError(const char *format, Args &&...args) {
  return llvm::make_error<ExitError>(std::vector{makeDiag(format, std::forward<Args>(args)...)},
                                     kDiffers);
}

int exitCodeOf(const DiagError &e);

// Remedies as flags: "; give another axis with --class-axis", or "".
std::string flagsText(llvm::ArrayRef<Remedy> remedies);

} // namespace isthmus
