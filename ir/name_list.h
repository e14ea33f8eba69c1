// Lists of names with wildcards, as a user writes them: `relu1, block*, %"a,b"`.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace isthmus {

struct NamePattern {
  std::string text;
  bool isExact = false; // quoted: `*` and `?` stand for themselves

  bool isWild() const { return !isExact && text.find_first_of("*?") != std::string::npos; }
  // `*` matches any text, `?` any one character.
  bool matches(llvm::StringRef name) const;
};

bool matchesAny(llvm::ArrayRef<NamePattern> patterns, llvm::StringRef name);

// Drops a leading `%` of a name. Names with commas or literal wildcards must be quoted.
std::vector<NamePattern> parseNameList(llvm::StringRef list);

} // namespace isthmus
