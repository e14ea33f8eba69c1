// Handles bugs of ours: the graph being compiled is saved, so that the bug can be reported.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Declares the graph that a bug saves, while the object lives. The graph must outlive it.
class GraphAtHand {
public:
  explicit GraphAtHand(const Graph &g);
  ~GraphAtHand();
  GraphAtHand(const GraphAtHand &) = delete;
  GraphAtHand &operator=(const GraphAtHand &) = delete;

private:
  const Graph *before_;
};

// After this call a failed check ends the process with a message and exit code 5.
void guardBugs();

// Returns the error; if it is a bug of ours, adds a note that names the saved graph's file.
llvm::Error withSavedGraph(llvm::Error e);

} // namespace isthmus
