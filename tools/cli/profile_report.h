// The output of `profile` for a step, as text for a person and as a trace to look at.
#pragma once

#include "runtime/profile.h"
#include <string>

namespace isthmus {

// The part of a step to which a node belongs.
enum class Part : uint8_t { Forward, Recomputed, Rebuilt, Encoded, Copied, Backward, Update };
constexpr size_t kParts = 7;
Part partOf(const Node &n);
llvm::StringRef partName(Part p); // "forward", "recomputed"

struct ProfiledStep {
  const Graph &graph;
  llvm::ArrayRef<NodeProfile> nodes; // by node
  const Target &target;
  std::string model;
  int steps;  // that were measured
  size_t top; // the number of ops and nodes listed, slowest first
};

std::string profileText(const ProfiledStep &p);

// One step in the trace event format that chrome://tracing and Perfetto show: a row for each part
// of the step (forward, recomputed, backward and so on), and the live bytes of the arena.
std::string traceText(const ProfiledStep &p);

} // namespace isthmus
