// How fast a GPU computes and reads, from what its driver tells of it: no more than ratios of costs
// need, and the same at every start, so that plans are.
#pragma once

#include <array>

namespace isthmus::cuda {

struct GpuShape {
  int major = 0, minor = 0; // its generation, such as 9.0
  int multiprocessors = 1;
  double hertz = 0;       // at most
  double memoryHertz = 0; // data goes twice in a cycle
  int memoryBits = 0;
};

struct GpuRates {
  double flopsPerSecond = 0, bytesPerSecond = 0;        // f32 arithmetic; memory
  double linkBytesPerSecond = 0;                        // to the host's memory, each way
  std::array<double, 8> contractionFlopsPerSecond = {}; // by ir/type.h's dtype; zero: the same
};

// `tf32`: whether products of f32 may round their operands.
GpuRates gpuRates(const GpuShape &shape, bool tf32);

} // namespace isthmus::cuda
