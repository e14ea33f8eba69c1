// Figures as JSON for the report. Its keys are a contract with readers: keys may be added, never
// changed or removed.
#pragma once

#include "ir/json.h"
#include "passes/compile/figures.h"

namespace isthmus {

// "schema" and a key for each figure; null for an unknown figure.
nlohmann::ordered_json figuresJson(const Figures &f);

// The knee of the price curve; null if there is none.
nlohmann::ordered_json kneeJson(const Figures &f);

// NaN and infinities become strings.
nlohmann::ordered_json jsonNumber(double d);

} // namespace isthmus
