// How long the slowest stage takes in every cut, whatever the order of the nodes.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace isthmus {

// Places (cut.h), which no cut divides, and the pairs of places of which the second reads what the
// first makes; a pair ascends.
struct PlacesToCut {
  std::vector<double> seconds; // by place
  std::vector<std::pair<uint32_t, uint32_t>> edges;
};

// A stage s takes its seconds divided by `weights[s]`. Stages ascend along edges. So places that all
// others come before or after are in one order in every cut; what lies between two of them is
// counted as if it could be divided anywhere, and what is on no way from the first place to the last
// one is left out.
double leastSlowestStage(const PlacesToCut &places, const std::vector<double> &weights);

} // namespace isthmus
