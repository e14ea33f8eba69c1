// Draws graphs with Graphviz.
//
// The forward pass runs down on the left, the backward pass up on the right, each backward node
// beside its operands. Recomputed nodes stand between them, at the height of their originals.
// Parameters are text lines in the nodes that read them; as nodes of their own they would hide the
// network.
#pragma once

#include "ir/graph.h"

namespace isthmus {

struct DotOptions {
  // More values to show as kept, besides those with the mark `checkpoint` and those that boundaries
  // pass.
  std::vector<ValueId> kept;
  // The nodes to draw; empty: all. A box tells how many neighbours of its node are not drawn.
  std::vector<NodeId> only;
  // A graph to compare with; null: none. Nodes that it lacks and nodes that differ have coloured
  // frames. Nodes that it alone has are drawn too, but not with `only`.
  const Graph *other = nullptr;
};

// The graph in DOT, with every name escaped as Graphviz needs it.
std::string dotText(const Graph &g, const DotOptions &options = {});

struct FoldOptions {
  // How many names deep modules are drawn; what is deeper is folded into one box a column. 0: as
  // deep as keeps the picture readable.
  unsigned depth = 0;
  std::vector<double> us; // time by node, to be told; empty: none is told
};

// The graph with its modules folded: a box for what each module has in each column, with counts,
// bytes and time. Modules in a row that are alike (layers) are drawn once, with a count; dashed
// arrows then lead to the next of them.
std::string foldedDotText(const Graph &g, const FoldOptions &options = {});

// The picture as SVG, drawn by the program `dot` on the PATH. Errors: the program is missing,
// fails, or exceeds the time limit (large graphs do).
llvm::Expected<std::string> renderSvg(llvm::StringRef dot, unsigned limitSeconds = 120);

} // namespace isthmus
