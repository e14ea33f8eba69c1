// Arithmetic and memory rates of a GPU, from its driver's properties. They are accurate enough for
// ratios of costs, and equal at every start, so that plans are too.
#pragma once

#include <array>

namespace isthmus::cuda {

struct GpuShape {
  int major = 0, minor = 0; // compute capability, such as 9.0
  int multiprocessors = 1;
  double hertz = 0;       // the highest clock rate
  double memoryHertz = 0; // double data rate: two transfers per cycle
  int memoryBits = 0;
};

struct GpuRates {
  double flopsPerSecond = 0, bytesPerSecond = 0;        // f32 arithmetic; memory
  double linkBytesPerSecond = 0;                        // to host memory, per direction
  std::array<double, 8> contractionFlopsPerSecond = {}; // by dtype; zero: flopsPerSecond
};

// `tf32`: whether products of f32 may round their operands.
GpuRates gpuRates(const GpuShape &shape, bool tf32);

} // namespace isthmus::cuda
