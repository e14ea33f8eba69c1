// Our own kernels for matrix products and for ops that reduce to one. They must be registered
// before all others, because they need almost no workspace. They decline calls if this machine
// lacks the vector units, and calls that oneDNN computes faster.
#pragma once

#include "runtime/kernel.h"

namespace isthmus {

void registerGemmKernels(KernelTable &table); // all of the below

void registerGemmAttention(KernelTable &table);
void registerGemmMatmul(KernelTable &table);
void registerGemmConv(KernelTable &table); // kernel size one

// Convolutions of any shape. To be registered after oneDNN's, which are faster where they exist.
void registerUnfoldedConv(KernelTable &table);

} // namespace isthmus
