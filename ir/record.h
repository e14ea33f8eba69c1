// How a graph came to be as it is, for whoever runs it, verifies it or plans it again.
#pragma once

#include "ir/op_def.h"

namespace isthmus {

// Who decided whether batch norm and dropout train.
enum class ModeSource : uint8_t {
  Rule,     // a graph that is differentiated trains, and one that is not is as written
  Eval,     // somebody asked for inference
  AsWritten // somebody asked for what the file says
};

struct GraphRecord {
  std::string policy; // that planned it: "budget", "memory (frontiers)"; empty: it was not planned
  std::string target; // for which it was planned
  std::optional<int64_t> budgetBytes; // that the arena was to stay within
  bool channelsLast = false;          // convolutions have their channels on the last axis
  bool fusedBias = false;             // matrix products add their biases themselves
  ModeSource mode = ModeSource::Rule;

  // A plan may be another order alone, without clones.
  bool wasPlanned() const { return !policy.empty(); }
  friend bool operator==(const GraphRecord &, const GraphRecord &) = default;
};

// The same as attributes, for files; without those that say nothing.
Attrs recordAttrs(const GraphRecord &r);
llvm::ArrayRef<AttrDef> recordDefs(); // lives for ever
// `a` has what `recordDefs` says, of the right kinds. An error for a word that is none of those that
// may stand there.
llvm::Expected<GraphRecord> recordFrom(const Attrs &a);

} // namespace isthmus
