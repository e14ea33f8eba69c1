// Tells where a request had little effect, what stops it, and what would help.
#pragma once

#include "passes/compile/compile.h"

namespace isthmus {

// What a request asks of the peak, as far as figures can tell whether it was done.
struct AskedOfPeak {
  bool parts = false; // regions in chunks or micro-batches, on one device
  // A lower peak without a number: parts, a policy, checkpoints, or the smallest budget.
  bool lower = false;
  bool any = false; // one of these, or a budget
};
AskedOfPeak askedOfPeak(const CompileOptions &o);

enum class LittleEffect : uint8_t {
  PartsTakeMore, // than the whole
  PeakStays,     // it falls by less than 1 %
  IsDear         // the added share of time is more than ten times the saved share of the peak
};
// None if the request did what it could be expected to do.
std::optional<LittleEffect> littleEffect(const Figures &f, const AskedOfPeak &asked);

// The stages that wait for more than half of the step, by the simulator; numbers in `f.stages`.
std::vector<size_t> idleStages(const Figures &f);

// Gives a note for each of these to the options' sink. Nothing is noted on a request of nothing, or
// on a graph that keeps its plan.
void noteLittleEffect(const Compiled &c, const CompileOptions &o, const Target &target);

} // namespace isthmus
