// Errors as values: located diagnostics for bad input, and plain messages for all other failures.
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

// A suggested fix: an option, by the name that all interfaces share ("class-axis"), and a value for
// it. Each interface spells the option in its own way ("--class-axis=1").
struct Remedy {
  std::string option;
  std::string value;   // empty: any value other than the given one
  std::string purpose; // "name another value"; empty: "give it"
};

// A message to the user about something that is not a failure.
struct Remark {
  Remark(std::string text) : text(std::move(text)) {}
  Remark(const char *text) : text(text) {}
  Remark(std::string text, Remedy remedy) : text(std::move(text)), remedies{std::move(remedy)} {}

  std::string text;
  std::vector<Remedy> remedies; // options that change what the remark reports
};
using NoteSink = std::function<void(const Remark &)>;

struct Diag {
  std::string where; // "mlp.isth:7:8" or `net.onnx: node "conv1" (Conv, #3)`; may be empty
  std::string message;
  std::string excerpt; // the quoted line and its caret, or empty; ends in a newline
  std::vector<Note> notes;
  std::vector<Remedy> remedies; // any one of them is enough
};

enum class ErrorKind : uint8_t {
  BadInput,    // wrong, unreadable or incomplete
  Unsupported, // valid, but we cannot handle it
  CannotBeMet, // a budget or a limit is too small
  Interrupted, // by the caller
  Device,      // missing or failed
  OutOfMemory, // of the host or a device
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

// A diagnostic with one message and no location.
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
// An error that reports a bug of ours; the message asks the user to report it.
template <typename... Args> llvm::Error internalError(const char *format, Args &&...args) {
  Diag d = makeDiag(format, std::forward<Args>(args)...);
  d.message = "internal: " + d.message + "; please report this";
  return llvm::make_error<DiagError>(std::vector{std::move(d)}, ErrorKind::Internal);
}

// Sets the location of each diagnostic of `e` that has none.
llvm::Error locate(llvm::Error e, llvm::StringRef where);
// Adds a note to the last diagnostic of `e`.
llvm::Error addNote(llvm::Error e, llvm::StringRef note);
// Adds a remedy to the last diagnostic of `e`.
llvm::Error addRemedy(llvm::Error e, Remedy remedy);
// The remedies as text, in no interface's spelling: "; give another axis (option class-axis)", then
// ", or ..." for each further one; "" if there are none.
std::string remediesText(llvm::ArrayRef<Remedy> remedies);
// The messages and remedies of `e` alone, for use within another message: no "error:", locations or
// notes.
std::string plainMessage(llvm::Error e);

// Up to three of `known` that are spelled similarly to `name`, as "; did you mean 'a' or 'b'?", or
// "". `sigil` is put before each: '%' for values.
std::string didYouMean(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known,
                       llvm::StringRef sigil = "");

} // namespace isthmus
