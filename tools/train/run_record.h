// What the bits of a training run depend on, beside its state. A checkpoint holds it, so that a run
// that goes on with something else can say so.
#pragma once

#include "passes/compile/compile.h"
#include "tools/train/dataset.h"
#include "tools/train/flags.h"

namespace isthmus {

// A digest of what a graph computes, without the contents of its parameters and states.
std::string digestOf(const Graph &g);

struct RunParts {
  std::string model;        // the digest of the graph before it was differentiated
  const GivenInputs &given; // for inputs that are not in the data
  const Dataset &data;
  const Compiled &step;
  const TrainerOptions &trainer;
};
// Names ("--lr", "the data") with values: numbers and words as typed, digests of contents.
RunRecord recordOf(const TrainFlags &f, const RunParts &parts);

// Sets what the record says of the plan to that of `step`: for a plan that is made during the run.
void recordPlan(RunRecord &record, const Compiled &step);

// The differences between two records: "--lr was 0.01 and is 0.1; ...". Empty if there are none.
std::string differencesOf(const RunRecord &was, const RunRecord &now);

} // namespace isthmus
