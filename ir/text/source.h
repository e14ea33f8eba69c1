// A named text: formats locations in it, and quotes it for diagnostics.
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
  // The line that holds the start of `part`, a part of `text`, and below it a caret and tildes
  // under `part` up to the end of that line. A very long line is cut around the caret.
  std::string excerpt(llvm::StringRef part) const;
};

} // namespace isthmus
