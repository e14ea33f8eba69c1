// Shared by all parsers of the text form: the current token, diagnostics, recovery, and the
// constructs that occur in several places (types, attributes, lists).
//
// Parsing functions return whether they succeeded. On failure they have reported the error, once.
#pragma once

#include "ir/attr.h"
#include "ir/op_def.h"
#include "ir/tensor.h"
#include "ir/text/lexer.h"
#include "ir/type.h"

namespace isthmus {

class Cursor {
public:
  Cursor(llvm::StringRef text, llvm::StringRef fileName);

  const Source source;

  // --- Tokens
  const Token &tok() const { return tok_; }
  bool at(Tok k) const { return tok_.kind == k; }
  bool atWord(llvm::StringRef w) const { return at(Tok::Word) && tok_.text == w; }
  void advance();
  bool accept(Tok k);
  bool acceptWord(llvm::StringRef w);
  bool expect(Tok k, const char *wanted); // `wanted` is as in "expected ',' or ')'"
  void skipNewlines();
  // Newlines between brackets of any kind are skipped. At both calls the current token is the
  // bracket.
  void open();
  void close();
  // Parses a list from the opening bracket to the closing one; calls `item()` for each item between
  // commas. An empty list is allowed.
  template <typename Item> bool list(Tok opening, Tok closing, const char *what, Item item);

  // --- Diagnostics. All return false.
  static constexpr size_t kMostDiags = 20;
  bool error(llvm::StringRef part, Loc loc, std::string message, std::vector<Note> notes = {});
  bool error(const Token &t, std::string message, std::vector<Note> notes = {}) {
    return error(t.text, t.loc, std::move(message), std::move(notes));
  }
  bool error(const Token &t, llvm::Error e);  // the error's message and remedies, at `t`
  bool unexpected(const std::string &wanted); // "expected <wanted>, got <the current token>"
  bool failed() const { return !diags_.empty(); }
  bool full() const { return diags_.size() > kMostDiags; } // too many: stop parsing
  llvm::Error takeError() { return llvm::make_error<DiagError>(std::move(diags_)); }
  // After an error in the statement that began at `start`: skips to the next line. If brackets are
  // open, also skips lines that do not begin like a statement, since they continue the broken one.
  void recover(const char *start, bool (*beginsStatement)(const Token &));

  // --- Pieces
  bool parseType(Type &type);
  bool parseInteger(int64_t &value, int64_t least, int64_t most, const char *what);
  bool parseLiteral(Attr &value);
  // Parses `{name = value, ...}`, or nothing, and checks each attribute against `defs`, the
  // attributes of `what`. Defaults are not filled in.
  bool parseAttrs(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, Attrs &attrs);
  // Parses the elements of a tensor of `type` in brackets: a flat list, or one that is nested as
  // the dimensions are.
  bool parseElements(const Type &type, Tensor &data);

private:
  bool parseListLiteral(Attr &value);
  bool readNumber(const Token &t, Attr &value);

  Lexer lexer_;
  Token tok_;
  unsigned open_ = 0;
  std::vector<Diag> diags_;
};

std::string shown(const Token &t);       // "'relu'", "the end of the line"
std::string shown(llvm::StringRef text); // in quotes, cut if long
Diag firstOf(llvm::Error e);             // its first diagnostic

template <typename Item> bool Cursor::list(Tok opening, Tok closing, const char *what, Item item) {
  if (!at(opening))
    return unexpected(what);
  open();
  if (!at(closing)) {
    do {
      if (!item())
        return false;
    } while (accept(Tok::Comma));
    if (!at(closing))
      return unexpected(closing == Tok::RParen   ? "',' or ')'"
                        : closing == Tok::RBrace ? "',' or '}'"
                                                 : "',' or ']'");
  }
  close();
  return true;
}

} // namespace isthmus
