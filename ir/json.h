// JSON in files: a printer that accepts strings of any bytes, and a parser that rejects ambiguous
// text.
#pragma once

#include "ir/diagnostics.h"
#include <nlohmann/json.hpp>

namespace isthmus {

// JSON must be UTF-8, but names need not be: other bytes become the replacement character.
template <typename Json> std::string jsonText(const Json &j, int indent = -1) {
  return j.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Errors: invalid JSON, a key that occurs twice in one object, nesting deeper than `deepest`.
// (Nested values take many times the memory of their text.)
llvm::Expected<nlohmann::json> parseJson(llvm::StringRef text, int deepest);

} // namespace isthmus
