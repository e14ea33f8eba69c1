// How many axes a tensor may have.
#pragma once

#include <cstdint>

namespace isthmus {

// Of inputs and of results of the forward part: nothing real has more, and rules are free to be
// quadratic in the rank.
constexpr int64_t kMaxRank = 32;
// Of all values: gradients may need an axis or two more than what they are the gradients of.
constexpr int64_t kMaxRankInside = 64;

} // namespace isthmus
