// Offsets of all values and workspaces in the arena and in host memory.
#pragma once

#include "ir/ids.h"
#include <cstdint>
#include <vector>

namespace isthmus {

struct Layout {
  // Bytes from the arena's start, by value id; kPersistent for graph inputs and views of them,
  // which lie outside of the arena. A view has the offset of its base, and a result that overwrites
  // an operand has that of the operand. Offsets of values in host memory count from the start of
  // the host allocation.
  static constexpr int64_t kPersistent = -1;
  std::vector<int64_t> valueOffset;
  std::vector<int64_t> workspaceOffset; // by node id; kPersistent for nodes without one
  int64_t arenaBytes = 0;
  int64_t peakBytes = 0; // largest sum of live bytes at any node
  int64_t hostBytes = 0; // size of the host allocation
};

} // namespace isthmus
