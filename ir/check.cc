#include "ir/check.h"

#include <cstdio>
#include <cstdlib>

namespace isthmus {

void bugFound(const char *file, int line, const char *what, const std::string &message) {
  std::fprintf(stderr, "error: internal: %s (%s, at %s:%d)\n", message.c_str(), what, file, line);
  std::fprintf(stderr, "note: this is a bug in isthmus; please report it with the command line\n");
  std::fflush(stderr);
  std::_Exit(5);
}

} // namespace isthmus
