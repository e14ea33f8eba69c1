// The columns of numbers that a page draws a step from.
#pragma once

#include "tools/view/columns.h"
#include "tools/view/step_table.h"

namespace isthmus {

// Adds the columns of a step, each with `prefix` before its name, and returns the facts that are no
// columns. With Detail::Profile only the live bytes are written.
enum class Detail : uint8_t { Profile, Whole };
nlohmann::ordered_json addStep(Columns &columns, const std::string &prefix, StepTable step,
                               Detail detail);

} // namespace isthmus
