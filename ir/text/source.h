// A text with a name: where a place in it is, and how a diagnostic quotes it.
#pragma once

#include "ir/diagnostics.h"

namespace isthmus {

class Source {
public:
  Source(llvm::StringRef text, llvm::StringRef fileName) : text(text), fileName(fileName) {}

  llvm::StringRef text;
  llvm::StringRef fileName;

  // "mlp.isth:7:8"
  std::string where(Loc loc) const;
  // The line around `part`, which lies in `text`, and below it a caret and tildes under `part`, as
  // far as that is on one line. A line that is very long is cut around the caret.
  std::string excerpt(llvm::StringRef part) const;
};

} // namespace isthmus
