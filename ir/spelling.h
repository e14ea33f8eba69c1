// How names, strings and numbers are spelt in the text form.
#pragma once

#include "ir/type.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace isthmus {

constexpr int kTextVersion = 2; // the version that is printed; 1 is read too

bool isNameChar(char c);              // [A-Za-z0-9_.$-]
bool isBareName(llvm::StringRef s);   // one or more name characters: needs no quotes
bool isDeviceName(llvm::StringRef s); // one or more name characters or ':', such as "cpu:0"
bool isWord(llvm::StringRef s);       // [A-Za-z_][A-Za-z0-9_]*

// `s` in quotes. Backslashes are doubled; '"' and bytes that are not printable ASCII become a
// backslash and two hexadecimal digits.
std::string quoted(llvm::StringRef s);
// The inverse of `quoted`; `s` is the text between the quotes. None if an escape is invalid. Beside
// the printed escapes it takes `\"`, `\n` and `\t`.
std::optional<std::string> unquoted(llvm::StringRef s);

std::string nameText(llvm::StringRef name); // bare, or quoted where necessary
bool isUtf8(llvm::StringRef s);
// For JSON, which must be UTF-8: quotes a name that is not UTF-8.
std::string utf8Text(llvm::StringRef name);
inline std::string valueText(llvm::StringRef name) { return "%" + nameText(name); }

// One element of a tensor: appends its text, the shortest that reads back to the same element.
void appendElement(DType t, const char *element, std::string &out);
// Writes the element that `text` (a number, `true`, `inf`, ...) stands for. Returns "" on success,
// else what was expected.
llvm::StringRef readElement(DType t, llvm::StringRef text, char *element);

} // namespace isthmus
