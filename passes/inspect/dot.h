// Pictures of graphs, by Graphviz.
//
// The forward pass runs down on the left, the backward pass up on the right, each backward node
// beside what it reads; recomputed nodes stand between, at the height of their originals.
// Parameters are lines in the nodes that read them: as nodes of their own they would hide the net.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct DotOptions {
  // Values to show as kept, beyond those that carry the mark `checkpoint` or that boundaries pass.
  std::vector<ValueId> kept;
};

// DOT that Graphviz takes, whatever the names.
std::string dotText(const Graph &g, const DotOptions &options = {});

// The picture as SVG, by the program `dot` on the PATH. Errors: it is missing, fails, or takes
// longer than the limit (large graphs do).
llvm::Expected<std::string> renderSvg(llvm::StringRef dot, unsigned limitSeconds = 120);

} // namespace isthmus
