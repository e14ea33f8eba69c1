// Rewrites that suit a graph to its target, before it is planned. They change rounding and nothing
// else.
#pragma once

#include "ir/target.h"
#include "llvm/ADT/SmallVector.h"

namespace isthmus {

// The axis of a convolution's channels.
enum class ChannelLayout : uint8_t { Auto, First, Last }; // Auto: the faster one on the target

struct LoweringOptions {
  bool fusesBias = false;
  llvm::SmallVector<DType, 4> channelsLast; // element types of convolutions to convert
};

LoweringOptions loweringFor(const Target &target, ChannelLayout layout);
// The options with which a graph was lowered, from its record.
LoweringOptions loweringOf(const GraphRecord &r);

// Lowers the graph and records it. A graph that was planned is returned unchanged, because its plan
// refers to its nodes.
Graph lowered(Graph g, const LoweringOptions &o);

} // namespace isthmus
