// Cuts a training step into stages.
//
// The forward nodes, in their order, are divided into runs of nodes, one for each stage. A backward
// node belongs to the stage whose parameters or forward values it reads, or, if it reads none, to
// that of the last parameter whose gradient needs it. So a stage has a part of the forward pass and
// the gradients of this part.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"

namespace isthmus {

struct Cut {
  std::vector<uint32_t> stageOf; // by node
  double slowestSeconds = 0;     // of the stages
  // No cut has a slowest stage that takes less: neither the whole divided by the number of stages,
  // nor the dearest forward node with the backward nodes that go with it.
  double boundSeconds = 0;
};

struct CutOptions {
  uint32_t stages = 2;
  // Each stage's share of the cost, relative to the others; empty: all alike.
  std::vector<double> shares;
  // Names of values, one fewer than stages: a stage ends behind the node that makes each. Replaces
  // the shares.
  std::vector<std::string> ends;
};

// The least slowest stage that runs of the forward order allow; among the cuts within 2 % of it,
// that with the fewest bytes between stages. `g` has no stand-ins. Errors: more stages than forward
// nodes, a name that is no forward value, or one that comes before that of an earlier stage.
llvm::Expected<Cut> cutIntoStages(const Graph &g, const Target &t, const CutOptions &o);

} // namespace isthmus
