// Training or inference semantics for a whole graph.
#pragma once

#include "ir/graph.h"

namespace isthmus {

enum class Mode : uint8_t { Training, Eval };

// Whether any node depends on the mode, as batch norm and dropout do.
bool dependsOnMode(const Graph &g);

// Sets `training` on every node that depends on the mode, backward ones and clones included.
//
// In Eval nothing is dropped, by masks that a file draws and multiplies by itself neither, and
// there is nothing to learn from a batch: outputs `state.NAME` go, and then all dead nodes.
//
// In Training each state input that forward nodes read as an average of batches is moved by them,
// one after the other, and its new value is an output `state.NAME`. An average that has such an
// output already stays as it is. Masks that Eval took out do not come back.
Graph withMode(const Graph &g, Mode mode);

// Without the nodes that drop nothing because they do not train: their results are their operands.
// Outputs keep theirs.
Graph withoutIdleDrops(Graph g);

} // namespace isthmus
