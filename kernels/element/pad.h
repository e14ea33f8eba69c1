// Source positions of padded axes, on every device.
#pragma once

#include "kernels/element/portable.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace isthmus::element {

enum class PadMode { Constant, Reflect, Edge, Wrap };

inline PadMode padMode(llvm::StringRef name) {
  return name == "edge"      ? PadMode::Edge
         : name == "reflect" ? PadMode::Reflect
         : name == "wrap"    ? PadMode::Wrap
                             : PadMode::Constant;
}

// The position that padded index i reads, on an axis of `size` whose first element has index 0. -1
// stands for the constant.
ISTHMUS_DEVICE inline int64_t sourceIndex(int64_t i, int64_t size, PadMode mode) {
  if (i >= 0 && i < size)
    return i;
  if (mode == PadMode::Edge)
    return i < 0 ? 0 : size - 1;
  if (mode == PadMode::Reflect)
    return i < 0 ? -i : 2 * (size - 1) - i;
  if (mode == PadMode::Wrap)
    return i < 0 ? i + size : i - size;
  return -1;
}

} // namespace isthmus::element
