// Axes of tensors: the limits on their number, and how attributes count them.
#pragma once

#include <cstdint>

namespace isthmus {

// The limit for inputs and for results of forward nodes: real models stay below it, and rules may
// be quadratic in the rank.
constexpr int64_t kMaxRank = 32;
// The limit for all values: nodes of a gradient may need an axis or two more than the forward
// nodes.
constexpr int64_t kMaxRankInside = 64;

// An axis of a tensor, counted from the first one. Attributes may count from the end: -1 is the
// last.
constexpr int64_t axisFromFront(int64_t axis, int64_t rank) {
  return axis < 0 ? axis + rank : axis;
}

} // namespace isthmus
