#include "tools/cli/processes.h"

#include "ir/file.h"
#include "ir/place.h"
#include "runtime/mpi_group.h"
#include "tools/cli/console.h"
#include <fcntl.h>
#include <unistd.h>

namespace isthmus {

static std::unique_ptr<ProcessGroup> &group() {
  static std::unique_ptr<ProcessGroup> joined;
  return joined;
}

ProcessGroup *processGroup() { return group().get(); }

// What the command prints on standard output is printed once.
static void closeStandardOutput() {
  if (const int fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC); fd >= 0) {
    ::dup2(fd, STDOUT_FILENO);
    ::close(fd);
  }
}

llvm::Error joinProcesses() {
  if (!isOneOfSeveral())
    return llvm::Error::success();
  if (llvm::Error e = joinMpiGroup().moveInto(group()))
    return e;
  const ProcessGroup &g = *group();
  const bool isFirst = g.rank() == 0;
  Console::get().setProcess(llvm::formatv("rank {0} on {1}: ", g.rank(), g.host()), isFirst);
  if (isFirst)
    return llvm::Error::success();
  leaveFilesToAnotherProcess();
  closeStandardOutput();
  return llvm::Error::success();
}

int leaveProcesses(int exitCode) {
  if (group())
    group()->end(exitCode);
  return exitCode;
}

void divideAmongProcesses(const Graph &g, CompileOptions &o) {
  if (!group() || !Places(g).isOne() || (o.stages && o.stages->stages > 0))
    return;
  if (!o.stages)
    o.stages.emplace();
  o.stages->stages = group()->size();
}

} // namespace isthmus
