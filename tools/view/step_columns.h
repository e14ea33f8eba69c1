// The tables that a page draws a step from.
#pragma once

#include "passes/inspect/timeline.h"
#include "tools/view/columns.h"

namespace isthmus {

// Adds the columns of a step, each with `prefix` before its name, and returns the facts that are no
// columns. With Detail::Profile only the live bytes are written.
enum class Detail : uint8_t { Profile, Whole };
nlohmann::ordered_json addStep(Columns &columns, const std::string &prefix, const Graph &g,
                               Timeline timeline, Detail detail);

} // namespace isthmus
