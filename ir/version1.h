// Facts that files of version 1 spelled into names and free-form text, moved to the fields that now
// hold them.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Sets the roles of outputs by name: `grad.NAME` and `grad2.NAME` are gradients by the value NAME;
// `state.NAME`, made by an update node, is the next value of the input NAME; all others are
// results.
void rolesByName(Graph &g);

// Moves the facts `target`, `policy`, `layout`, `bias` and `mode` from `meta` to the record.
void recordFromMeta(Graph &g);

} // namespace isthmus
