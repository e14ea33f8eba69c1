// Figures as the report has them: a contract with who reads it, to which keys are only ever added.
#pragma once

#include "ir/json.h"
#include "passes/compile/figures.h"

namespace isthmus {

// "schema" and a key for each figure; null where one is not known.
nlohmann::ordered_json figuresJson(const Figures &f);

// NaN and infinities as strings.
nlohmann::ordered_json jsonNumber(double d);

} // namespace isthmus
