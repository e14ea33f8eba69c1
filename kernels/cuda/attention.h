// How attention is split into chunks, for callers that want chunks of another size than the kernels
// in the table.
#pragma once

#include "runtime/kernel.h"

namespace isthmus::cuda {

// The number of scores in a chunk: as many f32 as stay in the L2 cache of a large GPU.
constexpr int64_t kMostScores = int64_t(8) << 20;

// A kernel for a call of attention or attention_grad. `mostScores` affects the rounding of the
// results.
std::unique_ptr<PreparedKernel> prepareAttention(const OpCall &call, const KernelOptions &options,
                                                 int64_t mostScores);

} // namespace isthmus::cuda
