// Runs a region of a graph chunk by chunk (CHUNK in docs/passes.md): each of its nodes becomes one
// node a chunk, on its part of the operands.
//
// Parts of an outermost axis are views; results that are read whole are put together in place; sums
// over the axis go on from the sum of the chunks before, where the row says how, else they are
// added. Sums of 16-bit values are in f32, and rounded once, after the last chunk. Nothing new is
// needed to plan, place or run the result. The region's own nodes are kept as replaced ones
// (Graph::addReplaced), so that the original can be recovered.
#pragma once

#include "passes/chunk/region.h"

namespace isthmus {

// How a sum in f32 becomes one of 16 bits: beside it, or, for a sum that is half of all sums of the
// region or more, where it lies, and then the value keeps the bytes of the sum.
enum class Rounding : uint8_t { Beside, InPlace };

// `chunks` is from 2 to region.units. Nodes that depend on the region and on which its other nodes
// depend run between two turns of it: a forward and a backward part, each chunk by chunk. With
// `only`, ascending numbers of chunks, the others are left out: each node has the sizes of the
// whole, but not its results.
Graph chunked(const Graph &g, const ChunkRegion &region, int64_t chunks,
              llvm::ArrayRef<int64_t> only = {}, Rounding rounding = Rounding::Beside);

// The bytes of the 16-bit values that are sums over the region's axis.
int64_t bytesOfShortSums(const Graph &g, const ChunkRegion &region);

// The graph in which losses have a form that can be cut (OpDef::unreduced), bit for bit.
Graph withUnreducedLosses(const Graph &g);

} // namespace isthmus
