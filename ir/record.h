// The options that shaped a graph, for tools that run it, verify it or plan it again.
#pragma once

#include "ir/op_def.h"

namespace isthmus {

// How the mode of batch norm and dropout, training or inference, was chosen.
enum class ModeSource : uint8_t {
  Rule,     // differentiated graphs train, and other graphs keep the mode in their file
  Eval,     // the user asked for inference
  AsWritten // the user asked for the mode in the file
};

// What decided a schedule.
enum class PlannedBy : uint8_t {
  Nothing, // it is as written
  None,    // this and the next four: the policies (passes/checkpoint/policy.h)
  Speed,
  Memory,
  Frontiers, // policy `memory`, where it keeps whole frontiers
  Collection,
  Budget,
  Given // by a user's own schedule
};
llvm::StringRef plannedByText(PlannedBy p); // "as written", "none", "memory (frontiers)", ...
std::optional<PlannedBy> parsePlannedBy(llvm::StringRef text);

struct GraphRecord {
  PlannedBy policy = PlannedBy::Nothing;
  std::string target; // the target that the graph was planned for
  std::optional<int64_t> budgetBytes; // the limit that the plan set for the arena
  bool channelsLast = false;          // convolutions have their channels on the last axis
  bool fusedBias = false;             // matrix products add their biases themselves
  ModeSource mode = ModeSource::Rule;

  // A plan may change the order alone, without clones.
  bool wasPlanned() const { return policy != PlannedBy::Nothing; }
  friend bool operator==(const GraphRecord &, const GraphRecord &) = default;
};

// The record as attributes, for files. Fields at their defaults are left out.
Attrs recordAttrs(const GraphRecord &r);
llvm::ArrayRef<AttrDef> recordDefs(); // never destroyed
// `a` must conform to `recordDefs`. An error if a string is not one of its allowed words.
llvm::Expected<GraphRecord> recordFrom(const Attrs &a);

} // namespace isthmus
