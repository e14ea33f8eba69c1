// Cuts a training step into stages.
//
// The forward nodes, in their order, are divided into runs of nodes, one for each stage. A backward
// node belongs to the stage of the forward node of whose gradient it is (Provenance::gradientOf).
// So a stage has a part of the forward pass and the gradients of this part. The sum of a tied
// weight's gradients grows from stage to stage, and ends where the weight is read first. An update
// is where the gradient is that it reads.
//
// Where the graph does not say of whose gradient a backward node is, it belongs to the stage whose
// parameters or forward values it reads, or, if it reads none, to that of the last parameter whose
// gradient needs it.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"
#include <algorithm>

namespace isthmus {

struct Cut {
  std::vector<uint32_t> stageOf; // by node
  // By stage: its cost, divided by its device's speed over the mean speed.
  std::vector<double> seconds;
  double meanSeconds = 0;  // if all took as long
  bool keepsLimits = true; // CutOptions::most
  // No cut into runs of the forward order has a slowest stage that takes less, whatever its shares.
  double leastSeconds = 0;
  // The same of every order of the forward nodes, each with the backward nodes that go with it
  // (cut_bound.h).
  double boundSeconds = 0;

  uint32_t slowest() const {
    return uint32_t(std::max_element(seconds.begin(), seconds.end()) - seconds.begin());
  }
};

struct CutOptions {
  uint32_t stages = 2;
  // The speed of each stage's device, relative to the others; empty: all alike.
  std::vector<double> speeds;
  // Each stage's share of the cost, relative to the others; empty: as the speeds are.
  std::vector<double> shares;
  // The most that each stage may take, in Cut::seconds, because of the memory of its device; empty:
  // no limit. Limits that no cut keeps are not kept.
  std::vector<double> most;
  // Names of values, one fewer than stages: a stage ends behind the node that makes each. Replaces
  // the shares.
  std::vector<std::string> ends;
};

// The least slowest stage that runs of the forward order allow, relative to the shares; among the
// cuts within 1 % of it, that with the fewest bytes between stages. `g` has no stand-ins. Errors:
// more stages than forward nodes, a name that is no forward value, or one that comes before that of
// an earlier stage.
llvm::Expected<Cut> cutIntoStages(const Graph &g, const Target &t, const CutOptions &o);

} // namespace isthmus
