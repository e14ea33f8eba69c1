#include "ir/text/cursor.h"

#include "ir/rank.h"
#include "ir/spelling.h"
#include <charconv>
#include <cmath>

namespace isthmus {

std::string shown(llvm::StringRef text) {
  constexpr size_t kLongest = 60;
  return "'" + text.take_front(kLongest).str() + (text.size() > kLongest ? "...'" : "'");
}

std::string shown(const Token &t) {
  if (t.kind == Tok::End)
    return "the end of the file";
  if (t.kind == Tok::Newline)
    return "the end of the line";
  return shown(t.text);
}

Diag firstOf(llvm::Error e) {
  Diag first;
  llvm::handleAllErrors(
      std::move(e), [&](const DiagError &d) { first = d.diags.front(); },
      [&](const llvm::ErrorInfoBase &other) { first.message = other.message(); });
  return first;
}

// --- Tokens

Cursor::Cursor(llvm::StringRef text, llvm::StringRef fileName)
    : source(text, fileName), lexer_(source) {
  advance();
}

void Cursor::advance() {
  do
    tok_ = lexer_.next();
  while (open_ > 0 && tok_.kind == Tok::Newline);
}

bool Cursor::accept(Tok k) {
  if (!at(k))
    return false;
  advance();
  return true;
}

bool Cursor::acceptWord(llvm::StringRef w) {
  if (!atWord(w))
    return false;
  advance();
  return true;
}

bool Cursor::expect(Tok k, const char *wanted) { return accept(k) || unexpected(wanted); }

void Cursor::skipNewlines() {
  while (at(Tok::Newline))
    advance();
}

void Cursor::open() {
  ++open_;
  advance();
}

void Cursor::close() {
  --open_;
  advance();
}

// --- Diagnostics

bool Cursor::error(llvm::StringRef part, Loc loc, std::string message, std::vector<Note> notes) {
  if (full())
    return false;
  Diag d;
  d.where = source.where(loc);
  if (diags_.size() == kMostDiags) {
    d.message = "more errors from here on; correct those above first";
  } else {
    d.message = std::move(message);
    d.excerpt = source.excerpt(part);
    d.notes = std::move(notes);
  }
  diags_.push_back(std::move(d));
  return false;
}

bool Cursor::error(const Token &t, llvm::Error e) {
  Diag first = firstOf(std::move(e));
  error(t, std::move(first.message));
  diags_.back().remedies = std::move(first.remedies);
  return false;
}

bool Cursor::unexpected(const std::string &wanted) {
  if (at(Tok::Bad))
    return error(tok_, lexer_.problem());
  return error(tok_, "expected " + wanted + ", got " + shown(tok_));
}

void Cursor::recover(const char *start, bool (*beginsStatement)(const Token &)) {
  bool wasOpen = open_ > 0;
  open_ = 0;
  while (!at(Tok::End)) {
    bool isNewLine = tok_.text.begin() > start && tok_.firstOnLine && !at(Tok::Newline);
    if (isNewLine && (!wasOpen || beginsStatement(tok_)))
      return;
    if (!at(Tok::Newline))
      lexer_.skipLine();
    advance();
  }
}

// --- Pieces

bool Cursor::parseType(Type &type) {
  const bool isOnHost = atWord("host");
  if (isOnHost)
    advance();
  auto dtype = at(Tok::Word) ? parseDType(tok_.text) : std::nullopt;
  if (!dtype)
    return unexpected(
        "a type such as 'f32[32, 784]' (of f32, f64, bf16, f16, i32, i64, u8, bool or token)");
  type = Type(*dtype, {}).in(isOnHost ? Memory::Host : Memory::Device);
  advance();
  return list(Tok::LBracket, Tok::RBracket, "'[' and the sizes ('[]' for a scalar)", [&] {
    int64_t d;
    if (type.rank() == kMaxRankInside)
      return unexpected(llvm::formatv("']': a tensor has at most {0} axes", kMaxRankInside).str());
    if (!parseInteger(d, 0, INT64_MAX, "a size"))
      return false;
    type.dims.push_back(d);
    return true;
  });
}

bool Cursor::parseInteger(int64_t &value, int64_t least, int64_t most, const char *what) {
  if (!at(Tok::Number))
    return unexpected(what);
  auto r = std::from_chars(tok_.text.begin(), tok_.text.end(), value);
  if (r.ec != std::errc() || r.ptr != tok_.text.end() || value < least || value > most)
    return error(tok_, std::string("expected ") + what + ", an integer from " +
                           std::to_string(least) + " to " + std::to_string(most) + ", got " +
                           shown(tok_));
  advance();
  return true;
}

bool Cursor::readNumber(const Token &t, Attr &value) {
  llvm::StringRef s = t.text;
  if (s.find_first_of(".eEn") == llvm::StringRef::npos) {
    int64_t i = 0;
    if (std::from_chars(s.begin(), s.end(), i).ec != std::errc())
      return error(t, "expected an integer within 64 bits, got " + shown(t));
    value = i;
    return true;
  }
  double d = 0;
  if (!readElement(DType::F64, s, reinterpret_cast<char *>(&d)).empty())
    return error(t, "expected a number within the range of 64-bit floats, got " + shown(t));
  value = d;
  return true;
}

bool Cursor::parseLiteral(Attr &value) {
  if (at(Tok::LBracket))
    return parseListLiteral(value);
  if (at(Tok::Number)) {
    if (!readNumber(tok_, value))
      return false;
  } else if (at(Tok::String)) {
    std::string scratch;
    value = nameOf(tok_, scratch).str();
  } else if (at(Tok::Word)) {
    llvm::StringRef w = tok_.text;
    if (w == "true" || w == "false")
      value = w == "true";
    else if (w == "inf" || w == "nan")
      value = w == "inf" ? HUGE_VAL : std::numeric_limits<double>::quiet_NaN();
    else
      value = w.str();
  } else {
    return unexpected("a value: a number, a word, a string, true, false or a list");
  }
  advance();
  return true;
}

// A list is of integers, or of floats if any item is a float.
bool Cursor::parseListLiteral(Attr &value) {
  Ints ints;
  Floats floats;
  bool anyFloat = false;
  bool ok = list(Tok::LBracket, Tok::RBracket, "'['", [&] {
    if (!at(Tok::Number) && !atWord("inf") && !atWord("nan"))
      return unexpected("a number");
    Attr one;
    if (!parseLiteral(one))
      return false;
    bool isFloat = kindOf(one) == AttrKind::Float;
    if (isFloat && !anyFloat)
      floats.assign(ints.begin(), ints.end());
    anyFloat |= isFloat;
    if (!anyFloat)
      ints.push_back(std::get<int64_t>(one));
    else
      floats.push_back(isFloat ? std::get<double>(one) : double(std::get<int64_t>(one)));
    return true;
  });
  if (anyFloat)
    value = std::move(floats);
  else
    value = std::move(ints);
  return ok;
}

bool Cursor::parseAttrs(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, Attrs &attrs) {
  if (!at(Tok::LBrace))
    return true;
  return list(Tok::LBrace, Tok::RBrace, "'{'", [&] {
    Token name = tok_;
    if (!expect(Tok::Word, "an attribute's name"))
      return false;
    if (attrs.find(name.text))
      return error(name, "attribute " + shown(name) + " is given twice");
    if (!expect(Tok::Equal, "'=' and the attribute's value"))
      return false;
    Attr value;
    if (!parseLiteral(value))
      return false;
    if (llvm::Error e = checkAttr(what, defs, name.text, value))
      return error(name, std::move(e));
    attrs.set(name.text, std::move(value));
    return true;
  });
}

bool Cursor::parseElements(const Type &type, Tensor &data) {
  const int64_t want = type.elements(), width = dtypeBytes(type.dtype);
  const Token first = tok_;
  std::string bytes; // grows with the elements in the text, not with the declared size
  int64_t count = 0;
  std::vector<int64_t> inside; // items so far in each open bracket
  size_t depthOfElements = 0;  // 1 in a flat list; the rank in a nested one; 0 before the first
  bool afterItem = false;
  auto wrongNesting = [&] {
    return error(tok_, "expected a flat list of elements, or one nested as the dimensions of " +
                           type.str() + " are");
  };
  do {
    if (at(Tok::LBracket) && !afterItem) {
      if (depthOfElements != 0 && inside.size() >= depthOfElements)
        return wrongNesting();
      if (inside.size() >= std::max<size_t>(1, type.dims.size()))
        return wrongNesting();
      inside.push_back(0);
      open();
    } else if (at(Tok::RBracket) && (afterItem || inside.back() == 0)) {
      bool isFlat = inside.size() == 1 && depthOfElements <= 1;
      if (!isFlat && inside.back() != type.dims[inside.size() - 1])
        return error(tok_, "expected " + std::to_string(type.dims[inside.size() - 1]) +
                               " items in this list, as " + type.str() + " has, got " +
                               std::to_string(inside.back()));
      inside.pop_back();
      if (!inside.empty())
        ++inside.back();
      afterItem = true;
      close();
    } else if (at(Tok::Comma) && afterItem) {
      afterItem = false;
      advance();
      if (at(Tok::RBracket))
        return unexpected("an element after ','");
    } else if ((at(Tok::Number) || at(Tok::Word)) && !afterItem) {
      if (depthOfElements == 0) {
        depthOfElements = inside.size();
        if (depthOfElements != 1 && depthOfElements != type.dims.size())
          return wrongNesting();
      }
      if (inside.size() != depthOfElements)
        return wrongNesting();
      if (count < want) {
        bytes.resize(bytes.size() + width);
        llvm::StringRef expected = readElement(type.dtype, tok_.text, &bytes[bytes.size() - width]);
        if (!expected.empty())
          return error(tok_, "expected " + expected.str() + " as an element of " + type.str() +
                                 ", got " + shown(tok_));
      }
      ++count;
      ++inside.back();
      afterItem = true;
      advance();
    } else {
      return unexpected(afterItem ? "',' or ']'" : "an element or ']'");
    }
  } while (!inside.empty());
  if (count != want)
    return error(first, "expected " + std::to_string(want) + " elements, as " + type.str() +
                            " has, got " + std::to_string(count));
  data = Tensor::make(type, [&](char *to) { std::memcpy(to, bytes.data(), bytes.size()); });
  return true;
}

} // namespace isthmus
