// The place where kernels are launched: a CUDA stream, or, if the same sources are compiled for the
// CPU, an emulation that runs launches at once or appends them to a recording.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace isthmus {
struct OpCall;
class PreparedKernel;
} // namespace isthmus

namespace isthmus::cuda {

// The device's properties that kernels need when they are prepared. Outlives every kernel.
struct Queue {
  void *stream = nullptr; // cudaStream_t
  int multiprocessors = 1;
  void *libraries = nullptr; // handles of cuDNN and cuBLASLt; null in the emulation
  bool tf32 = false;         // products of f32 may round their operands to ten bits
  // Prepares a library's matrix product as part of another kernel: see products.h. The pointer is
  // null if there is no library; the function returns null for a call that the library does not
  // take.
  std::unique_ptr<PreparedKernel> (*prepareProduct)(const OpCall &call, const Queue &queue,
                                                    int64_t alignment) = nullptr;
  // The first failure of a kernel since the device last checked. The string is static or owned by
  // the library.
  mutable const char *failure = nullptr;
  // Returns and clears the failure of earlier launches that the driver reports. Null where there is
  // no driver.
  const char *(*launchFailure)() = nullptr;
  // Messages for the user, each text once: which library refused or failed a call.
  mutable std::vector<std::string> notes;
  // Emulation only: while this is set, launches are appended to it and not run.
  std::vector<std::function<void()>> *recording = nullptr;

  void note(const std::string &text) const {
    if (std::find(notes.begin(), notes.end(), text) == notes.end())
      notes.push_back(text);
  }
};

} // namespace isthmus::cuda
