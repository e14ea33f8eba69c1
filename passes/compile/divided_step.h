// A step divided among stages, in micro-batches, before its nodes have an order.
#pragma once

#include "passes/compile/compile.h"
#include "passes/stages/cut.h"
#include "passes/stages/sampled_step.h"

namespace isthmus {

// A cut that is made anew because devices had no room for the stages of the last one.
struct CutAgain {
  std::vector<double> most; // CutOptions::most
  Cut last;
  std::vector<std::string> lastDevices; // as DividedStep::devices
  std::map<std::string, double> filled; // what each device then needed as a share of its memory

  // Limits the stages of devices that are overfull. False if there are none, or no cut can do so.
  bool tighten();
};

struct DividedStep {
  Graph graph;                   // in micro-batches, in the source order
  std::vector<uint32_t> stageOf; // by node of `graph`
  uint32_t numStages = 1;
  std::vector<std::string> devices; // stage s is on devices[s % devices.size()]

  std::optional<Cut> cut;   // none: by the devices that the nodes name
  BatchSample batches;      // those that the graph has; one: no micro-batches
  bool waitsForAll = false; // all micro-batches run forward before any runs backward

  const std::string &deviceOf(uint32_t stage) const { return devices[stage % devices.size()]; }
};

// Divides an original as `o.stages` and `o.microBatches` say: by the devices that its nodes name if
// no number of stages is given, and in four micro-batches for each stage if no number of these is.
// With `isSampled` the graph has a few of the micro-batches alone.
// Errors: those of cutIntoStages and inMicroBatches, devices that do not fit the stages, and a node
// that needs the whole batch where micro-batches go on behind it in an earlier stage than the last,
// or in an order in which some run backward before others run forward.
llvm::Expected<DividedStep> dividedStep(const Graph &original, const CompileOptions &o,
                                        const Target &target, CutAgain &again,
                                        bool isSampled = false);

// The number of micro-batches of a step in so many stages; 0: the step is not cut into any.
int64_t numMicroBatches(const Graph &original, const CompileOptions &o, uint32_t numStages);

} // namespace isthmus
