// Matrix products as parts of other kernels: by a library if there is one, else by our own kernel.
#pragma once

#include "kernels/cuda/candidates.h"
#include "kernels/cuda/queue.h"
#include "runtime/kernel.h"

namespace isthmus::cuda {

// Our own kernel, in matmul.cu. For 16-bit operands the result may have their compute type.
std::unique_ptr<PreparedKernel> prepareOwnProduct(const OpCall &call, const Queue &queue);

// Writes `rows` copies of a row of `columns` elements of `bytes` each to y. In matmul.cu.
void repeatRow(const Queue &queue, const void *row, int64_t columns, int64_t bytes, int64_t rows,
               void *y);

// Copies `bytes` bytes from one result to another. In matmul.cu.
void copyResult(const Queue &queue, int64_t bytes, const void *from, void *to);

// A kernel for a call of matmul. `alignment`, a power of two up to 64, divides all addresses.
inline std::unique_ptr<PreparedKernel> prepareProduct(const OpCall &call, const Queue &queue,
                                                      int64_t alignment) {
  if (!queue.prepareProduct)
    return prepareOwnProduct(call, queue);
  std::vector<std::unique_ptr<PreparedKernel>> kernels;
  if (auto kernel = queue.prepareProduct(call, queue, alignment))
    kernels.push_back(std::move(kernel));
  kernels.push_back(prepareOwnProduct(call, queue));
  return std::make_unique<Candidates>(queue, callTitle(call), std::move(kernels));
}

} // namespace isthmus::cuda
