// A region of a graph that may run chunk by chunk along one axis, so that its inner values never
// exist whole.
//
// It grows from one value, as the nodes that make and read it are cut with it (ir/axis_cut.h).
// Values that are small beside that value stay whole at the region's border: operands are cut
// there, results put together, and sums over the axis added up.
#pragma once

#include "ir/graph.h"
#include "passes/chunk/region_graph.h"

namespace isthmus {

// GrownRegion of a graph's nodes and values.
struct ChunkRegion {
  std::vector<NodeId> nodes; // in order
  llvm::DenseMap<ValueId, AxisCut> cuts;
  int64_t units = 0;
  llvm::DenseMap<ValueId, char> isPerChunk;
  std::vector<int64_t> parted;
  llvm::DenseMap<ValueId, ValueId> totals;

  ValueId totalOf(ValueId sum) const {
    auto it = totals.find(sum);
    return it == totals.end() ? sum : it->second;
  }
  bool has(NodeId n) const { return isIn.count(n) > 0; }
  llvm::DenseMap<NodeId, char> isIn; // the nodes
};

// The graph over which regions of `g`, which must outlive it, grow.
RegionGraph regionGraphOf(const Graph &g);

// The region that grows from `v`, a result of a node, cut like this: `v` does not exist whole. None
// if there is none.
std::optional<ChunkRegion> growRegion(const RegionGraph &g, ValueId v, AxisCut cut,
                                      const RegionOptions &o = {});

} // namespace isthmus
