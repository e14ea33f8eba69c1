#include "ir/text/lexer.h"

#include "ir/spelling.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {
namespace {

bool isWordChar(char c) { return llvm::isAlnum(c) || c == '_'; }
bool isDeviceChar(char c) { return isNameChar(c) || c == ':'; }

} // namespace

Lexer::Lexer(const Source &source)
    : p_(source.text.begin()), end_(source.text.end()), lineStart_(p_) {
  if (source.text.startswith("\xef\xbb\xbf")) // a byte order mark, which some editors write
    p_ = lineStart_ = p_ + 3;
}

void Lexer::skipLine() {
  while (p_ != end_ && *p_ != '\n')
    ++p_;
}

void Lexer::skipBlanks() {
  for (; p_ != end_; ++p_) {
    if (*p_ == '/' && p_ + 1 != end_ && p_[1] == '/')
      return skipLine();
    if (*p_ != ' ' && *p_ != '\t' && *p_ != '\r')
      return;
  }
}

Token Lexer::finish(Tok kind, const char *end) {
  Token t;
  t.kind = kind;
  t.firstOnLine = atLineStart_;
  t.text = llvm::StringRef(p_, end - p_);
  t.loc = {line_, uint32_t(p_ - lineStart_ + 1)};
  p_ = end;
  atLineStart_ = false;
  return t;
}

Token Lexer::bad(const char *end, std::string problem) {
  problem_ = std::move(problem);
  return finish(Tok::Bad, end);
}

Token Lexer::next() {
  skipBlanks();
  if (p_ == end_)
    return finish(Tok::End, p_);
  char c = *p_;
  switch (c) {
  case '\n': {
    Token t = finish(Tok::Newline, p_ + 1);
    ++line_;
    lineStart_ = p_;
    atLineStart_ = true;
    return t;
  }
  case ',':
    return finish(Tok::Comma, p_ + 1);
  case ':':
    return finish(Tok::Colon, p_ + 1);
  case '=':
    return finish(Tok::Equal, p_ + 1);
  case '(':
    return finish(Tok::LParen, p_ + 1);
  case ')':
    return finish(Tok::RParen, p_ + 1);
  case '{':
    return finish(Tok::LBrace, p_ + 1);
  case '}':
    return finish(Tok::RBrace, p_ + 1);
  case '[':
    return finish(Tok::LBracket, p_ + 1);
  case ']':
    return finish(Tok::RBracket, p_ + 1);
  case '"':
    return lexString(Tok::String, p_);
  case '%':
    return lexSigil(Tok::Value, "a name", isNameChar);
  case '@':
    return lexSigil(Tok::At, "a name", isDeviceChar);
  case '#':
    return lexSigil(Tok::Mark, "a mark's name", isNameChar);
  default:
    break;
  }
  if (llvm::isAlpha(c) || c == '_') {
    const char *e = p_ + 1;
    while (e != end_ && isWordChar(*e))
      ++e;
    return finish(Tok::Word, e);
  }
  if (llvm::isDigit(c) || c == '-' || c == '+' || c == '.')
    return lexNumber();
  if (llvm::isPrint(c))
    return bad(p_ + 1, std::string("unexpected character '") + c + "'");
  return bad(p_ + 1, "unexpected byte 0x" + llvm::utohexstr(uint8_t(c), /*LowerCase=*/true));
}

Token Lexer::lexNumber() {
  // Takes all characters that could belong to a number, so that `1.2.3` and `3x` are one bad
  // number. Signs are allowed only in front and after an exponent's `e`.
  const char *e = p_ + 1;
  while (e != end_ && (isWordChar(*e) || *e == '.' ||
                       ((*e == '-' || *e == '+') && (e[-1] == 'e' || e[-1] == 'E'))))
    ++e;
  llvm::StringRef s(p_, e - p_);
  llvm::StringRef rest = s;
  rest.consume_front("-");
  bool isNumber = rest == "inf" && s.front() == '-';
  if (!isNumber) {
    llvm::StringRef whole = rest.take_while(llvm::isDigit);
    rest = rest.drop_front(whole.size());
    bool ok = !whole.empty();
    if (rest.consume_front(".")) // the digits after the point may be empty
      rest = rest.drop_front(rest.take_while(llvm::isDigit).size());
    if (rest.consume_front("e") || rest.consume_front("E")) {
      if (!rest.consume_front("-"))
        rest.consume_front("+");
      llvm::StringRef digits = rest.take_while(llvm::isDigit);
      ok &= !digits.empty();
      rest = rest.drop_front(digits.size());
    }
    isNumber = ok && rest.empty();
  }
  if (!isNumber)
    return bad(e, "expected a number, got '" + s.take_front(60).str() + "'");
  return finish(Tok::Number, e);
}

Token Lexer::lexString(Tok kind, const char *quote) {
  const char *e = quote + 1;
  bool escapes = false;
  for (;; ++e) {
    if (e == end_ || *e == '\n')
      return bad(e, "expected a closing '\"' on this line");
    if (*e == '"')
      break;
    if (*e == '\\' && e + 1 != end_ && e[1] != '\n') {
      escapes = true;
      ++e;
    }
  }
  llvm::StringRef inside(quote + 1, e - quote - 1);
  if (escapes && !unquoted(inside))
    return bad(e + 1, "expected escapes of the form '\\\\', '\\\"', '\\n', '\\t' or '\\' and two "
                      "hexadecimal digits");
  if (kind != Tok::String && inside.empty())
    return bad(e + 1, "expected a name, got an empty one");
  return finish(kind, e + 1);
}

Token Lexer::lexSigil(Tok kind, const char *what, bool (*isPart)(char)) {
  const char *e = p_ + 1;
  if (e != end_ && *e == '"' && kind != Tok::Mark)
    return lexString(kind, e);
  while (e != end_ && isPart(*e))
    ++e;
  if (e == p_ + 1)
    return bad(e, std::string("expected ") + what + " after '" + *p_ + "'");
  return finish(kind, e);
}

llvm::StringRef nameOf(const Token &t, std::string &scratch) {
  llvm::StringRef s = t.text;
  if (t.kind != Tok::String)
    s = s.drop_front();
  if (s.empty() || s.front() != '"')
    return s;
  s = s.drop_front().drop_back();
  if (!s.contains('\\'))
    return s;
  scratch = *unquoted(s);
  return scratch;
}

} // namespace isthmus
