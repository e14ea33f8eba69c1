// Reads and writes problems and schedules as JSON files, in the joint-graph format of the referee.
#pragma once

#include "passes/plan/problem.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace isthmus {

struct JointGraph {
  std::string name;
  plan::Problem problem;
};

inline constexpr const char *kOrderNames[] = {"free", "phases", "fixed"};       // by plan::Order
inline constexpr const char *kPhaseNames[] = {"forward", "backward", "update"}; // by plan::OpPhase

// Formats joint-graph/1 and joint-graph/2. Errors name the node and the expected value.
llvm::Expected<JointGraph> parseJointGraph(llvm::StringRef json, llvm::StringRef file);

// Writes a valid problem in the format joint-graph/2, in which a node reads all outputs of another
// one. An op that reads one of several outputs does so through a view, a node of its own, so the
// numbers of nodes may differ from those of ops.
std::string printJointGraph(const std::string &name, const plan::Problem &p);

// Writes the fields of ops as JSON, a list for each, in the form in which programs give them
// (passes/plan/faults.h).
std::string printOps(const std::string &name, const plan::Problem &p);

// {"graph": name, "schedule": [ids]}.
std::string printSchedule(llvm::StringRef name, const plan::Schedule &s);
llvm::Expected<plan::Schedule> parseSchedule(llvm::StringRef json, llvm::StringRef file,
                                             llvm::StringRef name);

} // namespace isthmus
