// Axes of tensors: how many there may be, and how they are counted.
#pragma once

#include <cstdint>

namespace isthmus {

// Of inputs and of results of the forward part: nothing real has more, and rules are free to be
// quadratic in the rank.
constexpr int64_t kMaxRank = 32;
// Of all values: gradients may need an axis or two more than what they are the gradients of.
constexpr int64_t kMaxRankInside = 64;

// An axis of a tensor, counted from the first one. Attributes may count from the end: -1 is the
// last.
constexpr int64_t axisFromFront(int64_t axis, int64_t rank) {
  return axis < 0 ? axis + rank : axis;
}

} // namespace isthmus
