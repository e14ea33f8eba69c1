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

// Formats joint-graph/1 and joint-graph/2. Errors name the node and the expected value.
llvm::Expected<JointGraph> parseJointGraph(llvm::StringRef json, llvm::StringRef file);

// {"graph": name, "schedule": [ids]}.
std::string printSchedule(llvm::StringRef name, const plan::Schedule &s);
llvm::Expected<plan::Schedule> parseSchedule(llvm::StringRef json, llvm::StringRef file,
                                             llvm::StringRef name);

} // namespace isthmus
