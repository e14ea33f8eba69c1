// Matrix products, and what is one, by kernels of our own, to be registered before
// all others: they want next to no workspace. They decline what this machine has no vector units
// for, and what oneDNN does faster.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

void registerGemmKernels(KernelTable &table); // all of the below

void registerGemmAttention(KernelTable &table);
void registerGemmMatmul(KernelTable &table);
void registerGemmConv(KernelTable &table); // of kernel one

// Convolutions of any shape, to be registered behind oneDNN's, which are faster where there are any.
void registerUnfoldedConv(KernelTable &table);

} // namespace isthmus
