// What parsing any piece of the text form needs: the current token, diagnostics, recovery, and the
// pieces that stand in several places (types, attributes, lists).
//
// Parsing functions return whether it went well; where not, they have reported what is wrong, once.
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
  // Between brackets of any kind newlines do not count. The current token is the bracket.
  void open();
  void close();
  // From the opening bracket to the closing one: `item()` at each place between commas; an empty
  // list is fine.
  template <typename Item> bool list(Tok opening, Tok closing, const char *what, Item item);

  // --- Diagnostics. All return false.
  static constexpr size_t kMostDiags = 20;
  bool error(llvm::StringRef part, Loc loc, std::string message, std::vector<Note> notes = {});
  bool error(const Token &t, std::string message, std::vector<Note> notes = {}) {
    return error(t.text, t.loc, std::move(message), std::move(notes));
  }
  bool error(const Token &t, llvm::Error e);  // the error's own message and remedies, placed at `t`
  bool unexpected(const std::string &wanted); // "expected <wanted>, got <the current token>"
  bool failed() const { return !diags_.empty(); }
  bool full() const { return diags_.size() > kMostDiags; } // enough: stop parsing
  llvm::Error takeError() { return llvm::make_error<DiagError>(std::move(diags_)); }
  // After an error in the statement that began at `start`: goes on to the next line. Where brackets
  // are open, lines that begin with nothing that a statement begins with are left out: they go on
  // with what is broken.
  void recover(const char *start, bool (*beginsStatement)(const Token &));

  // --- Pieces
  bool parseType(Type &type);
  bool parseInteger(int64_t &value, int64_t least, int64_t most, const char *what);
  bool parseLiteral(Attr &value);
  // `{name = value, ...}`, or nothing; each is checked by the list of `what`. Defaults are not
  // filled in.
  bool parseAttrs(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, Attrs &attrs);
  // Elements of a tensor of `type` in brackets: a flat list, or one that is nested as the
  // dimensions are.
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
