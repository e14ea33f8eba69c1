// Placement: an offset in the arena for every storage and every workspace.
#pragma once

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/target.h"

namespace isthmus {

// Dynamic storage allocation, for `place` and its tests. Intervals are closed; sizes are positive.
struct Buffer {
  int64_t bytes;
  uint32_t first, last;
  int64_t offset = 0; // the result
};
struct OffsetOptions {
  int64_t enough = 0; // an arena of this size will do; the peak where that is larger
  double effort = 0;  // about seconds of one common core; 0: by the number of buffers
};
// Sets offsets so that buffers alive together do not overlap, and gives the end of the highest.
// `peak` is the largest sum of live bytes, below which no placement can get; the search stops when
// it is reached. Deterministic. INT64_MAX, and no offsets, where none was found that ends within
// 2^62 bytes.
int64_t assignOffsets(std::vector<Buffer> &buffers, int64_t peak,
                      const OffsetOptions &options = {});

// Storages live from the node that makes them to the last that reads them or a view of them,
// outputs to the end; a workspace while its node runs. Results share an operand's bytes wherever
// its row allows and it dies there. What lies in the host's memory is placed there likewise. The
// arena is within 1 % of the peak on all graphs known; where that cannot be reached, the least
// found. Errors: a node that the target cannot run; an arena of over 2^62 bytes. (`extractProblem`
// says where the sizes themselves are too large.)
llvm::Expected<Layout> place(const Graph &g, const Target &t, const OffsetOptions &options = {});

} // namespace isthmus
