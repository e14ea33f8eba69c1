// ISTHMUS_CHECK: what must hold in release builds too. A failure is a bug of ours, never bad input.
#pragma once

#include <string>

namespace isthmus {

// Prints the condition, the message and a request for a report, then ends the process with exit
// code 5.
[[noreturn]] void bugFound(const char *file, int line, const char *what,
                           const std::string &message);

} // namespace isthmus

#define ISTHMUS_CHECK(cond, message)                                                               \
  do {                                                                                             \
    if (!(cond))                                                                                   \
      ::isthmus::bugFound(__FILE__, __LINE__, #cond, (message));                                   \
  } while (false)

#define ISTHMUS_UNREACHABLE(message) ::isthmus::bugFound(__FILE__, __LINE__, "unreachable", message)
