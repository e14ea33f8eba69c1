// Levels of detail of a timeline, so that a picture of a step takes as long to draw as it has
// pixels, whatever the number of nodes.
#pragma once

#include "passes/inspect/timeline.h"

namespace isthmus {

// Where the most and the least live bytes are, by levels. An entry of level k covers 4^(k+1) nodes,
// which are four entries of the level below it or, for the lowest level, four nodes; the last entry
// may cover fewer. It names one of these four by its number: bits 0 and 1 the first that holds the
// most, bits 2 and 3 the first that holds the least.
using ExtremeLevels = std::vector<std::vector<uint8_t>>;
ExtremeLevels extremesOf(llvm::ArrayRef<int64_t> live);

// Blocks of similar size: lives of 4^k to 4^(k+1) nodes, and 4^j to 4^(j+1) bytes, for a k and a j.
// In a group the blocks are ordered by their first node. So a stretch of nodes overlaps one range
// of the group, and groups too small to be seen are left out as a whole.
struct BlockGroup {
  uint32_t first = 0, count = 0; // in the order of the blocks
  uint32_t longest = 0;          // nodes
  int64_t largest = 0;           // bytes
};
// Reorders the blocks into groups. The groups with the largest product of nodes and bytes come
// first.
std::vector<BlockGroup> groupBlocks(std::vector<Block> &blocks);

// The whole arena in a fixed number of cells, for blocks too small to be drawn each.
struct ArenaMap {
  uint32_t columns = 0, rows = 0; // over nodes, over offsets
  // By column and then by row: the kind with the largest share of the cell, and the share of all
  // kinds, in 255ths. The kind of an empty cell is 0.
  std::vector<uint8_t> kind, filled;
};
// At most `columns` and `rows`; fewer where the step has fewer nodes or the arena fewer bytes.
ArenaMap arenaMapOf(const Timeline &t, uint32_t columns, uint32_t rows);

} // namespace isthmus
