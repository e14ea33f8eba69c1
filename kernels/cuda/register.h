// The kernels of the CUDA device. The libraries' kernels are tried first.
#pragma once

#include "runtime/kernel.h"

namespace isthmus::cuda {

void registerLibraryKernels(KernelTable &table); // cuDNN's and cuBLASLt's, or the emulation's
void registerGridKernels(KernelTable &table);    // our own: all of the below

void registerActivation(KernelTable &table);
void registerAttention(KernelTable &table);
void registerBits(KernelTable &table);
void registerConv(KernelTable &table);
void registerElementwise(KernelTable &table);
void registerIndexing(KernelTable &table);
void registerInterpolate(KernelTable &table);
void registerLinalg(KernelTable &table);
void registerLoss(KernelTable &table);
void registerLrn(KernelTable &table);
void registerMath(KernelTable &table);
void registerMatmul(KernelTable &table);
void registerNorm(KernelTable &table);
void registerOptimizer(KernelTable &table);
void registerOrder(KernelTable &table);
void registerPool(KernelTable &table);
void registerRandom(KernelTable &table);
void registerReduce(KernelTable &table);
void registerRowNorm(KernelTable &table);
void registerScan(KernelTable &table);
void registerShape(KernelTable &table);
void registerSoftmax(KernelTable &table);

} // namespace isthmus::cuda
