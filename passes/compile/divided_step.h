// A step divided among stages, in micro-batches, before its nodes have an order.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

struct DividedStep {
  Graph graph;                      // in micro-batches, in the source order
  std::vector<uint32_t> stageOf;    // by node of `graph`
  uint32_t numStages = 1;
  std::vector<std::string> devices; // stage s is on devices[s % devices.size()]

  const std::string &deviceOf(uint32_t stage) const { return devices[stage % devices.size()]; }
};

// Divides an original as `o.stages` and `o.microBatches` say: by the devices that its nodes name if
// no number of stages is given, and in four micro-batches for each stage if no number of these is.
// Errors: those of cutIntoStages and inMicroBatches, devices that do not fit the stages, and a node
// that needs the whole batch in the middle of the stages.
llvm::Expected<DividedStep> dividedStep(const Graph &original, const CompileOptions &o,
                                        const Target &target);

} // namespace isthmus
