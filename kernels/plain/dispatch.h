// The common basis of the plain kernels: element types, threads, vector loops, broadcasting.
#pragma once

#include "kernels/element/dtype.h"
#include "kernels/element/broadcast.h"
#include "kernels/plain/parallel.h"

namespace isthmus::plain {

using namespace element;

template <typename T> const T *operand(const KernelArgs &args, size_t i) {
  return static_cast<const T *>(args.operands[i]);
}
template <typename T> T *result(const KernelArgs &args, size_t i) {
  return static_cast<T *>(args.results[i]);
}

} // namespace isthmus::plain
