// The kernels of the CUDA device. A table tries the libraries' first.
#pragma once

#include "runtime/kernel.h"

namespace isthmus::cuda {

void registerLibraryKernels(KernelTable &table); // cuDNN's and cuBLASLt's; none in the stand-in
void registerGridKernels(KernelTable &table);    // our own: all of the below

void registerElementwise(KernelTable &table);
void registerActivation(KernelTable &table);
void registerMath(KernelTable &table);
void registerBits(KernelTable &table);
void registerRandom(KernelTable &table);
void registerOptimizer(KernelTable &table);
void registerShape(KernelTable &table);
void registerIndexing(KernelTable &table);
void registerOrder(KernelTable &table);
void registerInterpolate(KernelTable &table);
void registerScan(KernelTable &table);
void registerLoss(KernelTable &table);
void registerRowNorm(KernelTable &table);
void registerNorm(KernelTable &table);
void registerLinalg(KernelTable &table);
void registerMatmul(KernelTable &table);
void registerConv(KernelTable &table);
void registerPool(KernelTable &table);
void registerLrn(KernelTable &table);
void registerReduce(KernelTable &table);
void registerSoftmax(KernelTable &table);

} // namespace isthmus::cuda
