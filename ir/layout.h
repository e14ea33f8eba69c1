// Where everything lies in the arena, and what goes to the host's memory in that.
#pragma once

#include "ir/ids.h"
#include <cstdint>
#include <vector>

namespace isthmus {

struct Layout {
  // Bytes from the arena's start, by value id; kPersistent for graph inputs (and views of them),
  // which are outside. Views have their base's offset, and a result that overwrites an operand has
  // the operand's. Values in the host's memory count from the start of what is taken there.
  static constexpr int64_t kPersistent = -1;
  std::vector<int64_t> valueOffset;
  std::vector<int64_t> workspaceOffset; // by node id; kPersistent where there is none
  int64_t arenaBytes = 0;
  int64_t peakBytes = 0; // largest sum of live bytes at any node
  int64_t hostBytes = 0; // taken of the host's memory
};

} // namespace isthmus
