// A region of a graph that may run chunk by chunk along one axis, so that its inner values never
// exist whole.
//
// It grows from one value, along the factors of the nodes that make and read it (ir/factors.h).
// Values that are small beside that value stay whole at the region's border: operands are cut
// there, results put together, and sums over the axis added up.
#pragma once

#include "ir/graph.h"
#include "llvm/ADT/DenseMap.h"
#include <optional>

namespace isthmus {

struct ChunkRegion {
  std::vector<NodeId> nodes; // in order
  // The axis along which each value is cut that the nodes read or make in chunks. Values that they
  // read and that are not here are read whole; results that are not here are sums over the axis.
  llvm::DenseMap<ValueId, uint32_t> axes;
  int64_t units = 0; // the number of places, less one, at which all of these axes may be cut
  // Values with an element along their axis for each chunk, such as the statistics of uneven parts
  // of a batch (Factors::Axis::isOfParts). If there are any, there is one number of chunks.
  llvm::DenseMap<ValueId, char> isPerChunk;
  std::vector<int64_t>
      parted; // the lengths of the axes that such parts divide: chunks are these parts

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

// The region that grows from `v`, a result of a node, along its axis `axis`: `v` does not exist
// whole. None if there is none.
std::optional<ChunkRegion> growRegion(const Graph &g, const Uses &uses, ValueId v, uint32_t axis,
                                      const RegionOptions &o = {});

} // namespace isthmus
