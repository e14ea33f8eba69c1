// Placement: an offset in the arena for every storage and every workspace.
#pragma once

#include "ir/graph.h"
#include "ir/layout.h"
#include "ir/target.h"
#include <functional>

namespace isthmus {

// Dynamic storage allocation, for `place` and its tests. A buffer is live at the steps from
// `begin` up to, but not including, `end`; sizes are positive.
struct Buffer {
  int64_t bytes;
  uint32_t begin, end;
  int64_t offset = 0; // the result
};
struct OffsetOptions {
  int64_t enough = 0; // an arena of this size will do, or of the peak if that is larger
  double effort = 0;  // about seconds of one common core; 0: by the number of buffers
  // Called now and then; if it returns false, the best placement so far is taken. May be empty.
  std::function<bool()> goOn = {};
};
// Sets offsets so that buffers alive together do not overlap, and returns the end of the highest.
// Offsets are multiples of the greatest common divisor of the sizes, so that sizes that are rounded
// up to an alignment keep it. `peak` is the largest sum of live bytes, a lower bound on every
// placement; the search stops when it is reached. Deterministic. Returns INT64_MAX, and sets no
// offsets, if it finds no placement that ends within 2^62 bytes.
int64_t assignOffsets(std::vector<Buffer> &buffers, int64_t peak,
                      const OffsetOptions &options = {});

// A storage lives from the node that makes it to the last node that reads it or a view of it; an
// output lives to the end, a workspace while its node runs. A result shares an operand's bytes if
// the op's row allows it and the operand dies there. Storages in the host's memory are placed there
// in the same way. On all known graphs the arena is within 1 % of the peak; if that is out of
// reach, it is the smallest found. Errors: a node that the target cannot run; an arena of over 2^62
// bytes. (`extractProblem` reports sizes that are themselves too large.)
llvm::Expected<Layout> place(const Graph &g, const Target &t, const OffsetOptions &options = {});

} // namespace isthmus
