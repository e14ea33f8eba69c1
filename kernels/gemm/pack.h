// Packs operands of a product into panels, in the order in which a register kernel reads them.
#pragma once

#include <cstdint>

namespace isthmus::gemm {

// Rows or columns of an operand. Element k of the i-th is at data[i * along + k * inner].
struct Strip {
  const float *data;
  int64_t along, inner;
};

// Packs `count` rows or columns, `depth` elements of each, into panels of `width`: a panel holds
// its elements k = 0 side by side, then its elements k = 1, and so on. Panels begin `panelStep`
// floats apart. The last one is filled up with zeros.
void packPanels(const Strip &from, int64_t count, int64_t width, int64_t depth, float *to,
                int64_t panelStep);

} // namespace isthmus::gemm
