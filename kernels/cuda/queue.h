// Where kernels are launched: a CUDA stream; or, where the same sources are compiled for the CPU,
// an emulation that runs them at once or writes them down for a recording.
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

// What is known of the device wherever a kernel is prepared. Outlives every kernel.
struct Queue {
  void *stream = nullptr; // cudaStream_t
  int multiprocessors = 1;
  void *libraries = nullptr; // handles of cuDNN and cuBLASLt; null in the emulation
  bool tf32 = false;         // products of f32 may round their operands to ten bits
  // A library's product of matrices, for kernels that are made of such: see products.h. Null where
  // there is no library; it gives null for what it does not take.
  std::unique_ptr<PreparedKernel> (*prepareProduct)(const OpCall &call, const Queue &queue,
                                                    int64_t alignment) = nullptr;
  // The first thing that went wrong in a kernel since the device last looked. Static or of the
  // library.
  mutable const char *failure = nullptr;
  // What went wrong in the launches before, by the driver's word; then it is forgotten. Null where
  // nobody can be asked.
  const char *(*launchFailure)() = nullptr;
  // What people should know, each text once: which library refused or failed a call.
  mutable std::vector<std::string> notes;
  // Emulation only: launches are appended instead of run while this is set.
  std::vector<std::function<void()>> *recording = nullptr;

  void note(const std::string &text) const {
    if (std::find(notes.begin(), notes.end(), text) == notes.end())
      notes.push_back(text);
  }
};

} // namespace isthmus::cuda
