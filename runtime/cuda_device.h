// The CUDA device. Its library, libisthmus_cuda.so, is loaded when the device is first asked for;
// what is here knows only its C interface.
#pragma once

#include "runtime/device.h"

namespace isthmus {

struct CudaOptions {
  int index = 0;
  bool tf32 = false;                          // f32 products may round their operands to tf32
  std::shared_ptr<const MeasuredCosts> costs; // null: its target's are estimated
};

// Looks for the library at $ISTHMUS_CUDA_LIBRARY if that is set; else beside the program, in ../lib
// from there, and where a build leaves it. Errors say why there is no device: no library, one of
// another version, no driver, no such GPU.
llvm::Expected<std::unique_ptr<Device>> makeCudaDevice(const CudaOptions &options);

// NVIDIA's libraries as the device's library finds them, one a line: where each is, or where it was
// looked for. Needs no GPU; an error where the device's library cannot be loaded.
llvm::Expected<std::string> cudaLibraries();

} // namespace isthmus
