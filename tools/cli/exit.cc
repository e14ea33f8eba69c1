#include "tools/cli/exit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {

char ExitError::ID = 0;

int exitCodeOf(const DiagError &e) {
  if (e.isA(ExitError::classID()))
    return static_cast<const ExitError &>(e).code;
  switch (e.kind) {
  case ErrorKind::BadInput:
  case ErrorKind::Unsupported:
    return kBadInput;
  case ErrorKind::CannotBeMet:
    return kNotMet;
  case ErrorKind::Interrupted:
    return kInterrupted;
  case ErrorKind::Device:
  case ErrorKind::OutOfMemory:
  case ErrorKind::Internal:
    return kFailed;
  }
  return kFailed;
}

namespace {
// A word that a shell passes on as it is: in quotes if it has more than letters and digits.
std::string shellWord(const std::string &text) {
  if (llvm::all_of(text, [](char c) {
        return llvm::isAlnum(c) || llvm::StringRef("_-.,:/=%@+").contains(c);
      }))
    return text;
  std::string quoted = "'";
  for (char c : text)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

// "--class-axis", "--class-axis=1", "--dim N=8", "--dim 'batch size=8'".
std::string flag(const Remedy &r) {
  if (r.value.empty())
    return "--" + r.option;
  if (llvm::StringRef(r.value).contains('='))
    return "--" + r.option + " " + shellWord(r.value);
  return "--" + r.option + "=" + r.value;
}
} // namespace

std::string flagsText(llvm::ArrayRef<Remedy> remedies) {
  std::string text, last;
  for (const Remedy &r : remedies) {
    if (r.option == last && r.purpose.empty()) // an option that must be given several times
      text += " " + flag(r);
    else
      text += (text.empty() ? "; " : ", or ") +
              (r.purpose.empty() ? "give " : r.purpose + " with ") + flag(r);
    last = r.option;
  }
  return text;
}

} // namespace isthmus
