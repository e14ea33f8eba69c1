// How far inverses are from what they stand for, measured by a graph.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct InverseErrors {
  Graph graph;
  struct Of {
    ValueId value; // of the graph given: what is rebuilt, as its first run makes it
    NodeId by;     // of the graph given
    ValueId most;  // output of `graph`: the largest difference of any element
    ValueId scale; // output: the largest element of the value, both without sign
    // The entries, before this one, of inverses from which this one is made.
    std::vector<size_t> from;
  };
  std::vector<Of> all; // in the order in which they run
};

// `g`, rewritten, with two scalar outputs for each of its inverses of floating-point values, and no
// others. What is rebuilt stays until it is compared, so that this takes the memory that the
// inverses were to save.
InverseErrors withInverseErrors(const Graph &g);

} // namespace isthmus
