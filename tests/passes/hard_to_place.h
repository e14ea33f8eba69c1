// Buffers that fill 12 bytes in each of 10 steps without a gap. Fillings of the skyline end at 13
// bytes, so only the exact search places them.
#pragma once

#include "passes/place/place.h"

namespace isthmus {

inline std::vector<Buffer> hardToPlace() {
  return {{3, 0, 3},  {9, 0, 1}, {3, 5, 10}, {1, 1, 5}, {4, 5, 6},  {1, 1, 3}, {8, 3, 4},
          {2, 5, 10}, {7, 1, 3}, {2, 6, 10}, {3, 3, 6}, {3, 6, 10}, {8, 4, 5}, {2, 6, 10}};
}

} // namespace isthmus
