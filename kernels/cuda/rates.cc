#include "kernels/cuda/rates.h"

#include "ir/type.h"

namespace isthmus::cuda {
namespace {

// Multiply-adds that a multiprocessor starts per cycle: of f32 arithmetic, and of matrix products
// in f64, tf32, bf16 and f16. From the table of arithmetic instructions in the CUDA C++ Programming
// Guide. For matrix units from each generation's white paper: the numbers that give the advertised
// rates, such as 989e12 operations a second in bf16 for an H100 (132 multiprocessors, 1.83 GHz).
struct Generation {
  int major, minor; // the first version that the row applies to
  int f32, f64, tf32, bf16, f16;
};
constexpr Generation kGenerations[] = {
    {7, 0, 64, 32, 64, 64, 512},        // V100
    {7, 5, 64, 2, 64, 64, 512},         // T4
    {8, 0, 64, 64, 512, 1024, 1024},    // A100
    {8, 6, 128, 2, 128, 256, 256},      // A40, RTX 30
    {8, 9, 128, 2, 256, 512, 512},      // L40, RTX 40
    {9, 0, 128, 128, 1024, 2048, 2048}, // H100, H200
    {10, 0, 128, 64, 2048, 4096, 4096}, // B200
    {10, 3, 128, 2, 2048, 4096, 4096},  // B300
    {11, 0, 128, 2, 1024, 2048, 2048},  // Thor
    {12, 0, 128, 2, 128, 256, 256},     // RTX 50
};

// The row of a compute capability; later generations get the last known row.
const Generation &generationOf(int major, int minor) {
  const Generation *found = kGenerations;
  for (const Generation &g : kGenerations)
    if (g.major < major || (g.major == major && g.minor <= minor))
      found = &g;
  return *found;
}

} // namespace

GpuRates gpuRates(const GpuShape &shape, bool tf32) {
  const Generation &g = generationOf(shape.major, shape.minor);
  auto rate = [&](int multiplyAdds) {
    return 2.0 * multiplyAdds * shape.multiprocessors * shape.hertz;
  };
  // The rate of pinned memory over 16 lanes of PCI Express 3, 4 or 5, by generation, less a fifth
  // for the protocol.
  const double linkGigabytes = g.major < 8 ? 12.5 : g.major < 9 ? 25 : 50;
  GpuRates r;
  r.linkBytesPerSecond = 1e9 * linkGigabytes;
  r.flopsPerSecond = rate(g.f32);
  r.bytesPerSecond = 2 * shape.memoryHertz * (shape.memoryBits > 0 ? shape.memoryBits : 256) / 8;
  auto set = [&](DType t, int multiplyAdds) {
    r.contractionFlopsPerSecond[size_t(t)] = rate(multiplyAdds);
  };
  set(DType::F32, tf32 ? g.tf32 : g.f32);
  set(DType::F64, g.f64);
  set(DType::BF16, g.bf16);
  set(DType::F16, g.f16);
  return r;
}

} // namespace isthmus::cuda
