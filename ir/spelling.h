// How names, strings and numbers are spelt in the text form.
#pragma once

#include "ir/type.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace isthmus {

constexpr int kTextVersion = 2; // that is printed; 1 is read too

bool isNameChar(char c);              // [A-Za-z0-9_.$-]
bool isBareName(llvm::StringRef s);   // one or more of them: needs no quotes
bool isDeviceName(llvm::StringRef s); // one or more of them or ':', such as "cpu:0"
bool isWord(llvm::StringRef s);       // [A-Za-z_][A-Za-z0-9_]*

// In quotes; what is not printable ASCII, and '"', become a backslash and two hexadecimal digits.
std::string quoted(llvm::StringRef s);
// The inverse: `s` is what stands between the quotes. Nothing if an escape is not one. Beside the
// printed escapes it takes `\"`, `\n` and `\t`.
std::optional<std::string> unquoted(llvm::StringRef s);

std::string nameText(llvm::StringRef name); // bare, or quoted if it has to be
bool isUtf8(llvm::StringRef s);
// For JSON, which holds UTF-8 alone: a name that is none is quoted.
std::string utf8Text(llvm::StringRef name);
inline std::string valueText(llvm::StringRef name) { return "%" + nameText(name); }

// One element of a tensor: appends its text, the shortest that reads back to the same element.
void appendElement(DType t, const char *element, std::string &out);
// Writes the element that `text` (a number, `true`, `inf`, ...) stands for. An empty result is
// success, else it says what was expected.
llvm::StringRef readElement(DType t, llvm::StringRef text, char *element);

} // namespace isthmus
