// The CUDA device. Its library, libisthmus_cuda.so, is loaded on first use; this code uses only its
// C interface.
#pragma once

#include "runtime/device.h"

namespace isthmus {

struct CudaOptions {
  int index = 0;
  bool tf32 = false;                          // f32 products may round their operands to tf32
  std::shared_ptr<const MeasuredCosts> costs; // null: the target estimates costs
};

// Looks for the library at $ISTHMUS_CUDA_LIBRARY if that is set; else in the program's folder, in
// ../lib beside it, and in the build's output folder. Errors say why no device is available: no
// library, a library of another version, no driver, no such GPU.
llvm::Expected<std::unique_ptr<Device>> makeCudaDevice(const CudaOptions &options);

// How many GPUs there are. Errors as for makeCudaDevice.
llvm::Expected<int> countCudaDevices();

// The paths of NVIDIA's libraries as the device's library finds them, one per line, or the paths
// searched for a missing one. Needs no GPU; an error if the device's library cannot be loaded.
llvm::Expected<std::string> cudaLibraries();

} // namespace isthmus
