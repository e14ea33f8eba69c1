// A graph that measures the error of inverses: the difference between a rebuilt value and the
// original value.
#pragma once

#include "ir/graph.h"
#include <cstdint>

namespace isthmus {

struct InverseErrors {
  Graph graph;
  struct Of {
    ValueId value; // of the given graph: the first instance of the rebuilt value
    NodeId by;     // of the given graph: the last node of the inverse
    ValueId most;  // output of `graph`: the largest absolute difference of an element
    ValueId scale; // output of `graph`: the largest absolute value of an element
    // The earlier entries whose rebuilt values this inverse depends on.
    std::vector<size_t> from;
  };
  std::vector<Of> all; // in execution order
};

// `g` is a rewritten graph. The result has two scalar outputs for each of its inverses of
// floating-point values, and no others. Of larger values `mostElements` are compared, at even
// distances; these are copied when the original is made, and stay live until they are compared. A
// value that is compared whole stays live itself, which takes the memory that its inverse was to
// save.
InverseErrors withInverseErrors(const Graph &g, int64_t mostElements = INT64_MAX);

} // namespace isthmus
