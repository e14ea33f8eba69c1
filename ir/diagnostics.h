// Errors as values: located diagnostics for bad input, and plain messages for everything else that
// fails.
//
// A message starts in lower case, ends without a full stop, and says what was expected, what was
// found and what to do.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FormatVariadic.h"
#include <functional>
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

// What would mend it: an option, by the name that it has at every door ("class-axis"), and what to
// give there. Each door spells it in its own way ("--class-axis=1").
struct Remedy {
  std::string option;
  std::string value;   // empty: another than was given
  std::string purpose; // "name another value"; empty: "give it"
};

// What a person should know although nothing failed.
struct Remark {
  Remark(std::string text) : text(std::move(text)) {}
  Remark(const char *text) : text(text) {}
  Remark(std::string text, Remedy remedy) : text(std::move(text)), remedies{std::move(remedy)} {}

  std::string text;
  std::vector<Remedy> remedies; // to have it otherwise
};
using NoteSink = std::function<void(const Remark &)>;

struct Diag {
  std::string where; // "mlp.isth:7:8" or `net.onnx: node "conv1" (Conv, #3)`; may be empty
  std::string message;
  std::string excerpt; // the quoted line and its caret, or empty; ends in a newline
  std::vector<Note> notes;
  std::vector<Remedy> remedies; // any of them would do
};

enum class ErrorKind : uint8_t {
  BadInput,    // wrong, unreadable or incomplete
  Unsupported, // right, but we cannot do it
  CannotBeMet, // a budget or a limit
  Interrupted, // by whoever asked
  Device,      // missing, failed or out of memory
  Internal     // a bug of ours
};

class DiagError : public llvm::ErrorInfo<DiagError> {
public:
  static char ID;
  explicit DiagError(std::vector<Diag> d, ErrorKind kind = ErrorKind::BadInput)
      : diags(std::move(d)), kind(kind) {}
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override { return llvm::inconvertibleErrorCode(); }

  std::vector<Diag> diags; // one or more
  ErrorKind kind;
};

// A diagnostic with one message and no place.
template <typename... Args> Diag makeDiag(const char *format, Args &&...args) {
  Diag d;
  d.message = llvm::formatv(format, std::forward<Args>(args)...).str();
  return d;
}
template <typename... Args>
llvm::Error makeError(ErrorKind kind, const char *format, Args &&...args) {
  return llvm::make_error<DiagError>(std::vector{makeDiag(format, std::forward<Args>(args)...)},
                                     kind);
}
template <typename... Args> llvm::Error makeError(const char *format, Args &&...args) {
  return makeError(ErrorKind::BadInput, format, std::forward<Args>(args)...);
}
// A bug of ours, told as one.
template <typename... Args> llvm::Error internalError(const char *format, Args &&...args) {
  Diag d = makeDiag(format, std::forward<Args>(args)...);
  d.message = "internal: " + d.message + "; please report this";
  return llvm::make_error<DiagError>(std::vector{std::move(d)}, ErrorKind::Internal);
}

// Adds a place to each diagnostic of `e` that has none.
llvm::Error locate(llvm::Error e, llvm::StringRef where);
// Adds a note to the last diagnostic of `e`.
llvm::Error addNote(llvm::Error e, llvm::StringRef note);
// The same with a remedy.
llvm::Error addRemedy(llvm::Error e, Remedy remedy);
// The text without a door: "; give another axis (option class-axis)" for each, or "".
std::string remediesText(llvm::ArrayRef<Remedy> remedies);
// What went wrong and nothing else, for use within another message: no "error:", places or notes.
std::string plainMessage(llvm::Error e);

// Up to three of `known` that are near `name` in spelling, as "; did you mean 'a' or 'b'?", or "".
// `sigil` is put before each: '%' for values.
std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known,
                       llvm::StringRef sigil = "");

} // namespace isthmus
