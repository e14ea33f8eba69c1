// The ways to compute a graph among which a target's own is chosen, before anything is planned.
// They change rounding and nothing else.
#pragma once

#include "ir/target.h"
#include "llvm/ADT/SmallVector.h"

namespace isthmus {

// Where convolutions have their channels.
enum class ChannelLayout : uint8_t { Auto, First, Last }; // Auto: what the target is faster with

struct LoweringOptions {
  bool fusesBias = false;
  llvm::SmallVector<DType, 4> channelsLast; // where convolutions are of one of these types
};

LoweringOptions loweringFor(const Target &target, ChannelLayout layout);
// What was done to a graph that has been lowered.
LoweringOptions loweringOf(const GraphRecord &r);

// The graph, lowered, and with that on record. One that was planned comes back as it is, for its
// plan is of the nodes that it has.
Graph lowered(Graph g, const LoweringOptions &o);

} // namespace isthmus
