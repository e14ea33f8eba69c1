#include "ir/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace isthmus {
namespace {
std::atomic<BugHandler> handler{nullptr};
}

std::string bugText(const Bug &bug) {
  return "internal: " + bug.message + " (" + bug.condition + ", at " + bug.file + ":" +
         std::to_string(bug.line) + ")";
}

void setBugHandler(BugHandler h) { handler = h; }

void bugFound(const char *file, int line, const char *condition, const std::string &message) {
  const Bug bug{file, line, condition, message};
  if (BugHandler h = handler)
    h(bug);
  std::fprintf(stderr, "error: %s\n", bugText(bug).c_str());
  std::abort();
}

} // namespace isthmus
