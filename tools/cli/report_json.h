// The report as JSON, for verbs that add to it.
#pragma once

#include "ir/json.h"
#include "tools/cli/compiled.h"

namespace isthmus {

nlohmann::ordered_json reportJson(const Report &r);

// A list of numbers; null if it is empty.
nlohmann::ordered_json jsonNumbers(const std::vector<double> &list);

} // namespace isthmus
