// ISTHMUS_CHECK: what must hold in release builds too. A failure is a bug of ours, never bad input.
#pragma once

#include <string>

namespace isthmus {

struct Bug {
  const char *file;
  int line;
  const char *condition; // that does not hold
  std::string message;
};

std::string bugText(const Bug &bug); // "internal: MESSAGE (CONDITION, at FILE:LINE)"

// Is told of a bug, on the thread that met it, and does not return: it ends the process or that
// thread, or throws. Without one the bug is told on stderr, and the process aborts as at an
// assertion. To be set once, by the program that the library is part of, before it is used.
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
