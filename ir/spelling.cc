#include "ir/spelling.h"

#include "ir/attr.h"
#include "ir/check.h"
#include "ir/half.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include <charconv>
#include <cmath>

namespace isthmus {

bool isNameChar(char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$' || c == '-'; }

bool isBareName(llvm::StringRef s) { return !s.empty() && llvm::all_of(s, isNameChar); }

bool isDeviceName(llvm::StringRef s) {
  return !s.empty() && llvm::all_of(s, [](char c) { return isNameChar(c) || c == ':'; });
}

bool isWord(llvm::StringRef s) {
  if (s.empty() || llvm::isDigit(s.front()))
    return false;
  return llvm::all_of(s, [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

std::string quoted(llvm::StringRef s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '\\')
      out += "\\\\";
    else if (llvm::isPrint(c) && c != '"')
      out += c;
    else
      (out += '\\') += {llvm::hexdigit(uint8_t(c) >> 4, /*LowerCase=*/true),
                        llvm::hexdigit(uint8_t(c) & 15, true)};
  }
  return out += '"';
}

std::optional<std::string> unquoted(llvm::StringRef s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\') {
      out += s[i];
      continue;
    }
    llvm::StringRef rest = s.drop_front(i + 1);
    if (rest.empty())
      return std::nullopt;
    if (rest.size() >= 2 && llvm::isHexDigit(rest[0]) && llvm::isHexDigit(rest[1])) {
      out += char(llvm::hexFromNibbles(rest[0], rest[1]));
      i += 2;
      continue;
    }
    char c = rest[0];
    if (c != '\\' && c != '"' && c != 'n' && c != 't')
      return std::nullopt;
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    ++i;
  }
  return out;
}

bool isUtf8(llvm::StringRef s) {
  auto *p = reinterpret_cast<const llvm::UTF8 *>(s.begin());
  return llvm::isLegalUTF8String(&p, reinterpret_cast<const llvm::UTF8 *>(s.end()));
}

std::string utf8Text(llvm::StringRef name) { return isUtf8(name) ? name.str() : quoted(name); }

std::string nameText(llvm::StringRef name) { return isBareName(name) ? name.str() : quoted(name); }

namespace {

template <typename T> T load(const char *p) {
  T t;
  std::memcpy(&t, p, sizeof t);
  return t;
}
template <typename T> void store(char *p, T t) { std::memcpy(p, &t, sizeof t); }

template <typename F> void appendFloat(F f, std::string &out) {
  if (!std::isfinite(f)) {
    out += floatText(f);
    return;
  }
  char buf[40];
  char *end = std::to_chars(buf, buf + sizeof buf, f).ptr;
  llvm::StringRef s(buf, end - buf);
  out += s;
  if (s.find_first_of(".e") == llvm::StringRef::npos)
    out += ".0";
}

template <typename F> llvm::StringRef readFloat(llvm::StringRef s, F &f) {
  if (s == "inf" || s == "-inf" || s == "nan") {
    f = s == "nan" ? F(NAN) : s == "inf" ? F(INFINITY) : F(-INFINITY);
    return "";
  }
  auto r = std::from_chars(s.begin(), s.end(), f);
  if (r.ptr != s.end() || r.ec == std::errc::invalid_argument)
    return "a number";
  return r.ec == std::errc() ? "" : "a number within the range of the element type";
}

template <typename I> llvm::StringRef readInt(llvm::StringRef s, char *element) {
  I i;
  auto r = std::from_chars(s.begin(), s.end(), i);
  if (r.ptr != s.end() || r.ec == std::errc::invalid_argument)
    return "an integer";
  if (r.ec != std::errc())
    return "an integer within the range of the element type";
  store(element, i);
  return "";
}

} // namespace

void appendElement(DType t, const char *p, std::string &out) {
  switch (t) {
  case DType::F32:
    return appendFloat(load<float>(p), out);
  case DType::F64:
    return appendFloat(load<double>(p), out);
  case DType::BF16:
    return appendFloat(bf16ToFloat(load<uint16_t>(p)), out);
  case DType::F16:
    return appendFloat(f16ToFloat(load<uint16_t>(p)), out);
  case DType::I32:
    out += std::to_string(load<int32_t>(p));
    return;
  case DType::I64:
    out += std::to_string(load<int64_t>(p));
    return;
  case DType::U8:
    out += std::to_string(load<uint8_t>(p));
    return;
  case DType::Bool:
    out += *p ? "true" : "false";
    return;
  case DType::Token:
    break;
  }
  ISTHMUS_UNREACHABLE("element type");
}

llvm::StringRef readElement(DType t, llvm::StringRef text, char *element) {
  llvm::StringRef expected;
  switch (t) {
  case DType::F32: {
    float f = 0;
    expected = readFloat(text, f);
    store(element, f);
    return expected;
  }
  case DType::F64: {
    double d = 0;
    expected = readFloat(text, d);
    store(element, d);
    return expected;
  }
  case DType::BF16:
  case DType::F16: {
    float f = 0;
    expected = readFloat(text, f);
    uint16_t bits = t == DType::F16 ? floatToF16(f) : floatToBF16(f);
    store(element, bits);
    bool overflowed =
        std::isfinite(f) && std::isinf(t == DType::F16 ? f16ToFloat(bits) : bf16ToFloat(bits));
    return overflowed ? "a number within the range of the element type" : expected;
  }
  case DType::I32:
    return readInt<int32_t>(text, element);
  case DType::I64:
    return readInt<int64_t>(text, element);
  case DType::U8:
    return readInt<uint8_t>(text, element);
  case DType::Bool:
    if (text != "true" && text != "false")
      return "true or false";
    *element = text == "true";
    return "";
  case DType::Token:
    break;
  }
  ISTHMUS_UNREACHABLE("element type");
}

} // namespace isthmus
