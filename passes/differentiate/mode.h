// Training or inference semantics for a whole graph.
#pragma once

#include "ir/graph.h"

namespace isthmus {

enum class Mode : uint8_t { Training, Eval };

// Whether any node depends on the mode, as batch norm and dropout do.
bool dependsOnMode(const Graph &g);

// Sets `training` on every node that depends on the mode, backward ones and clones included.
//
// Eval removes dropout, also dropout that a file spells out with random masks. It removes the
// outputs `state.NAME`, since no statistics are learned from a batch, and then all dead nodes.
//
// In Training, each forward node that reads a state input as a running average updates it, one node
// after the other, and the final average is an output `state.NAME`. An average that has such an
// output already is left alone. Masks that Eval removed are not restored.
Graph withMode(const Graph &g, Mode mode);

// Removes dropout nodes that are not in training mode: readers of their results read their
// operands. A dropout node whose result is an output or the loss stays.
Graph withoutIdleDrops(Graph g);

} // namespace isthmus
