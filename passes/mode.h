// Training or inference semantics for a whole graph.
#pragma once

#include "ir/graph.h"

namespace isthmus {

enum class Mode : uint8_t { Training, Eval };

// Sets `training` on every node that depends on the mode, backward ones and clones included. In
// Eval nothing is dropped, by masks that a file draws and multiplies by itself neither, and there
// is nothing to learn from a batch: outputs `state.NAME` go, and then all dead nodes. Training adds
// no updates where the graph has none.
Graph withMode(const Graph &g, Mode mode);

} // namespace isthmus
