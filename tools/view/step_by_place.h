// A step over one or several devices as parts, one for each device, over one time.
#pragma once

#include "passes/compile/compile.h"
#include "passes/inspect/timeline.h"
#include "passes/stages/work_bars.h"
#include "tools/view/step_table.h"

namespace isthmus {

// What one device does. Node i of `graph` is the node `nodes.of[i]` of the step's graph.
struct PlacePart {
  std::string device;
  const Graph &graph;
  const Layout &layout;
  WholeNodes nodes;
  std::optional<int64_t> budgetBytes; // of the arena
};

struct StepByPlace {
  std::vector<PlacePart> places;
  StepTimes times;           // of the nodes of the step's graph
  std::vector<WorkBar> bars; // of all places
};

// `c` outlives the result. `o` are the options that it was compiled with.
StepByPlace stepByPlace(const Compiled &c, const CompileOptions &o, const Target &target);

// Errors: a node that the target cannot run.
llvm::Expected<StepTable> stepTableOf(const PlacePart &p, const Target &target);

} // namespace isthmus
