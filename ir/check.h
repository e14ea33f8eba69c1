// ISTHMUS_CHECK: an assertion that stays on in release builds. A failure is a bug of ours, never
// bad input.
#pragma once

#include <string>

namespace isthmus {

struct Bug {
  const char *file;
  int line;
  const char *condition; // the source text of the condition that failed
  std::string message;
};

std::string bugText(const Bug &bug); // "internal: MESSAGE (CONDITION, at FILE:LINE)"

// A handler is called with a bug, on the thread that found it, and must not return: it ends the
// process or the thread, or throws. Without a handler the bug is printed to stderr and the process
// aborts, as at an assertion. The program that embeds the library sets the handler once, before it
// uses the library.
using BugHandler = void (*)(const Bug &);
void setBugHandler(BugHandler handler);

[[noreturn]] void bugFound(const char *file, int line, const char *condition,
                           const std::string &message);

} // namespace isthmus

#define ISTHMUS_CHECK(cond, message)                                                               \
  do {                                                                                             \
    if (!(cond))                                                                                   \
      ::isthmus::bugFound(__FILE__, __LINE__, #cond, (message));                                   \
  } while (false)

#define ISTHMUS_UNREACHABLE(message) ::isthmus::bugFound(__FILE__, __LINE__, "unreachable", message)
