// How attention is cut into chunks, for those who want other chunks than the table's kernels have.
#pragma once

#include "runtime/kernel.h"

namespace isthmus::cuda {

// Scores of a chunk: as many as stay in the outer cache of a large GPU, in f32.
constexpr int64_t kMostScores = int64_t(8) << 20;

// Of a call of attention or attention_grad. Results depend on `mostScores`, by rounding.
std::unique_ptr<PreparedKernel> prepareAttention(const OpCall &call, const KernelOptions &options,
                                                 int64_t mostScores);

} // namespace isthmus::cuda
