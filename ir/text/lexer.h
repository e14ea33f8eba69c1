// Tokens of the text form. Newlines are tokens, as they end statements.
#pragma once

#include "ir/diagnostics.h"
#include "ir/text/source.h"

namespace isthmus {

enum class Tok : uint8_t {
  End,
  Newline,
  Word,   // matmul
  Value,  // %h or %"a/b:0"
  At,     // @mlp, @cpu:0 or @"..."
  Mark,   // #checkpoint
  Number, // 3, -0.5, 1e-5, -inf
  String, // "..."
  Comma,
  Colon,
  Equal,
  LParen,
  RParen,
  LBrace,
  RBrace,
  LBracket,
  RBracket,
  Bad // Lexer::problem() says why
};

struct Token {
  Tok kind = Tok::End;
  bool firstOnLine = false;
  llvm::StringRef text; // its spelling, a part of the source
  Loc loc;
};

class Lexer {
public:
  explicit Lexer(const Source &source);

  Token next();
  // Skips the rest of the line, up to but not including the newline.
  void skipLine();
  const std::string &problem() const { return problem_; }

private:
  void skipBlanks();
  Token finish(Tok kind, const char *end);
  Token bad(const char *end, std::string problem);
  Token lexNumber();
  Token lexString(Tok kind, const char *quote);
  Token lexSigil(Tok kind, const char *what, bool (*isPart)(char));

  const char *p_, *end_, *lineStart_;
  uint32_t line_ = 1;
  bool atLineStart_ = true;
  std::string problem_;
};

// The name in a Value, At, Mark or String token: its spelling without sigil and quotes. `scratch`
// holds the name if escapes had to be resolved.
llvm::StringRef nameOf(const Token &t, std::string &scratch);

} // namespace isthmus
