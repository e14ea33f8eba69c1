// What happens when a bug of ours is met: the graph at hand is saved, so that it can be reported.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// While one of these lives, a bug is met with this graph, which must live as long.
class GraphAtHand {
public:
  explicit GraphAtHand(const Graph &g);
  ~GraphAtHand();
  GraphAtHand(const GraphAtHand &) = delete;
  GraphAtHand &operator=(const GraphAtHand &) = delete;

private:
  const Graph *before_;
};

// From here on a check that fails ends the process with a message and exit code 5.
void guardBugs();

// The error, and if it is a bug of ours a note that says where the graph at hand was saved.
llvm::Error withSavedGraph(llvm::Error e);

} // namespace isthmus
