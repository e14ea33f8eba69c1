// A region of a graph that may run chunk by chunk along one axis, so that its inner values never
// exist whole.
//
// It grows from one value, as the nodes that make and read it are cut with it (ir/axis_cut.h).
// Values that are small beside that value stay whole at the region's border: operands are cut
// there, results put together, and sums over the axis added up.
#pragma once

#include "ir/axis_cut.h"
#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace isthmus {

struct ChunkRegion {
  std::vector<NodeId> nodes; // in order
  // How each value is cut that the nodes read or make in chunks. Values that they read and that are
  // not here are read whole; results that are not here are sums over the chunks.
  llvm::DenseMap<ValueId, AxisCut> cuts;
  int64_t units = 0; // the equal shares of all of these cuts; a chunk is some of them
  // Values with an element along their axis for each chunk, such as the statistics of uneven parts
  // of a batch (CallCuts::Of::isOfParts). If there are any, there is one number of chunks.
  llvm::DenseMap<ValueId, char> isPerChunk;
  std::vector<int64_t>
      parted; // the lengths of the axes that such parts divide: chunks are these parts

  // Sums over the chunks that are only read to be added to others of them: all are added up in one
  // total, as the gradients of a weight that several nodes read. By such a sum, and by the nodes
  // that add them, which are of the region, the last of these nodes' result.
  llvm::DenseMap<ValueId, ValueId> totals;
  ValueId totalOf(ValueId sum) const {
    auto it = totals.find(sum);
    return it == totals.end() ? sum : it->second;
  }

  bool has(NodeId n) const { return isIn.count(n) > 0; }
  llvm::DenseMap<NodeId, char> isIn; // the nodes
};

struct RegionOptions {
  // Values of this share of the first one's bytes, or more, do not exist whole if they need not.
  double leastShare = 1.0 / 8;
  // A sum that would be rounded in parts stays outside if what it sums is smaller; bytes.
  int64_t leastSummed = 0;
  size_t mostNodes = 4096;
  // The number of chunks, if it does not divide the units and a factor of parts may be cut: then
  // values of that many elements along the axis have one for each chunk.
  int64_t unevenParts = 0;
};

// The region that grows from `v`, a result of a node, cut like this: `v` does not exist whole. None
// if there is none.
std::optional<ChunkRegion> growRegion(const Graph &g, const Uses &uses, ValueId v, AxisCut cut,
                                      const RegionOptions &o = {});

} // namespace isthmus
