// The plain kernels: obvious loops, one file per family of ops. They are the reference for every
// other kernel, and they run every call that no faster kernel takes. Ops whose result is a view
// need no kernel.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

void registerPlainKernels(KernelTable &table); // all of the below
const KernelTable &plainKernels();              // a table of them alone

void registerPlainElementwise(KernelTable &table);
void registerPlainActivation(KernelTable &table);
void registerPlainMath(KernelTable &table);
void registerPlainBits(KernelTable &table);
void registerPlainScan(KernelTable &table);
void registerPlainIndexing(KernelTable &table);
void registerPlainOrder(KernelTable &table);
void registerPlainLinalg(KernelTable &table);
void registerPlainShape(KernelTable &table);
void registerPlainReduce(KernelTable &table);
void registerPlainMatmul(KernelTable &table);
void registerPlainConv(KernelTable &table);
void registerPlainPool(KernelTable &table);
void registerPlainInterpolate(KernelTable &table);
void registerPlainNorm(KernelTable &table);
void registerPlainSoftmax(KernelTable &table);
void registerPlainAttention(KernelTable &table);
void registerPlainLoss(KernelTable &table);
void registerPlainRandom(KernelTable &table);
void registerPlainOptimizer(KernelTable &table);

} // namespace isthmus
