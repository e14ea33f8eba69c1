#include "tools/cli/bug.h"

#include "ir/check.h"
#include "ir/text/printer.h"
#include "tools/cli/console.h"
#include "tools/cli/exit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <cstdlib>

namespace isthmus {
namespace {

// The graph of the command that runs. There is one thread that compiles.
const Graph *atHand = nullptr;

// Saves the graph and returns a line that names the file; "" without a graph, or if it cannot be
// written. Large weights are left out: the structure is what reproduces a bug.
std::string savedGraph() {
  if (!atHand)
    return "";
  const Graph &g = *std::exchange(atHand, nullptr); // so that a bug while saving does not recurse
  llvm::SmallString<128> path;
  int fd = -1;
  if (llvm::sys::fs::createTemporaryFile("isthmus-bug", "isth", fd, path))
    return "";
  llvm::raw_fd_ostream os(fd, /*shouldClose=*/true);
  printGraph(g, os);
  os.flush();
  if (os.has_error()) {
    os.clear_error();
    llvm::sys::fs::remove(path);
    return "";
  }
  return "the graph was saved as '" + path.str().str() + "'";
}

[[noreturn]] void onBug(const Bug &bug) {
  talk(processName() + "error: " + bugText(bug) + "\n");
  if (std::string saved = savedGraph(); !saved.empty())
    talk("note: " + saved + "\n");
  talk("note: this is a bug in isthmus; please report it with the command line\n");
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  std::_Exit(kFailed);
}

} // namespace

GraphAtHand::GraphAtHand(const Graph &g) : before_(std::exchange(atHand, &g)) {}
GraphAtHand::~GraphAtHand() { atHand = before_; }

void guardBugs() { setBugHandler(onBug); }

llvm::Error withSavedGraph(llvm::Error e) {
  return llvm::handleErrors(std::move(e), [](std::unique_ptr<DiagError> d) -> llvm::Error {
    if (d->kind == ErrorKind::Internal)
      if (std::string saved = savedGraph(); !saved.empty())
        d->diags.back().notes.emplace_back(saved);
    return llvm::Error(std::move(d));
  });
}

} // namespace isthmus
