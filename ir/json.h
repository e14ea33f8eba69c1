// JSON in files: text whatever bytes the strings hold, and a parser that refuses what could mean
// two things.
#pragma once

#include "ir/diagnostics.h"
#include <nlohmann/json.hpp>

namespace isthmus {

// Names need not be UTF-8, and JSON has to be: other bytes become the replacement character.
template <typename Json> std::string jsonText(const Json &j, int indent = -1) {
  return j.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Errors: no JSON, a key that is given twice in one object, nesting deeper than `deepest`. (What is
// nested takes many times the memory of its text.)
llvm::Expected<nlohmann::json> parseJson(llvm::StringRef text, int deepest);

} // namespace isthmus
