// Errors as values: located diagnostics for bad input, and plain messages for everything else that
// fails.
//
// A message starts in lower case, ends without a full stop, and says what was expected, what was
// found and what to do.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include <string>
#include <vector>

namespace isthmus {

// A place in a text file; line and column count from 1, 0 means unknown. For a graph that came from
// ONNX, `line` is the index of the node in the file plus one and `column` is 0.
struct Loc {
  uint32_t line = 0;
  uint32_t column = 0;
};

// "mlp.isth:2:13: note: '%w' comes from here"; `where` may be empty.
struct Note {
  Note(std::string message) : message(std::move(message)) {}
  Note(std::string where, std::string message)
      : where(std::move(where)), message(std::move(message)) {}

  std::string where;
  std::string message;
};

struct Diag {
  std::string where; // "mlp.isth:7:8" or `net.onnx: node "conv1" (Conv, #3)`; may be empty
  std::string message;
  std::string excerpt; // the quoted line and its caret, or empty; ends in a newline
  std::vector<Note> notes;
};

// Bad input (exit 1) unless `exitCode` says otherwise: 2 usage, 3 budget, 4 results differ, 5
// device or bug.
class DiagError : public llvm::ErrorInfo<DiagError> {
public:
  static char ID;
  explicit DiagError(std::vector<Diag> d, int code = 1) : diags(std::move(d)), exitCode(code) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::vector<Diag> diags;
  int exitCode;
};

// An error with one message and no place.
template <typename... Args> llvm::Error makeError(const char *format, Args &&...args) {
  Diag d;
  d.message = llvm::formatv(format, std::forward<Args>(args)...).str();
  return llvm::make_error<DiagError>(std::vector<Diag>{std::move(d)});
}
// The same with an exit code of its own.
template <typename... Args>
llvm::Error makeErrorCode(int code, const char *format, Args &&...args) {
  Diag d;
  d.message = llvm::formatv(format, std::forward<Args>(args)...).str();
  return llvm::make_error<DiagError>(std::vector<Diag>{std::move(d)}, code);
}

// Adds a place to each diagnostic of `e` that has none.
llvm::Error locate(llvm::Error e, llvm::StringRef where);
// Adds a note to the last diagnostic of `e`.
llvm::Error addNote(llvm::Error e, llvm::StringRef note);
// What went wrong and nothing else, for use within another message: no "error:", places or notes.
std::string plainMessage(llvm::Error e);

// Up to three of `known` that are near `name` in spelling, as "; did you mean 'a' or 'b'?", or "".
// `sigil` is put before each: '%' for values.
std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known,
                       llvm::StringRef sigil = "");

} // namespace isthmus
