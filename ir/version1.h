// What files of version 1 spelled into names and free-form facts, as the fields that it has now.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The outputs `grad.NAME`, `grad2.NAME` and `state.NAME` are what their names say, if there is such
// an input; others are results.
void rolesByName(Graph &g);

// The facts `target`, `policy`, `layout`, `bias` and `mode` leave `meta` for the record.
void recordFromMeta(Graph &g);

} // namespace isthmus
