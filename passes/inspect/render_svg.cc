// Runs Graphviz without a shell and without named files: text and picture are in memory.

#include "passes/inspect/dot.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

namespace isthmus {
namespace {

// A memory file that a child process can open by a path. It is freed when this process ends, in
// whatever way.
class SharedBytes {
public:
  SharedBytes() : fd_(::memfd_create("isthmus", MFD_CLOEXEC)) {}
  ~SharedBytes() {
    if (isOpen())
      ::close(fd_);
  }
  SharedBytes(const SharedBytes &) = delete;
  SharedBytes &operator=(const SharedBytes &) = delete;

  bool isOpen() const { return fd_ >= 0; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

  std::error_code write(llvm::StringRef bytes) {
    llvm::raw_fd_ostream os(fd_, /*shouldClose=*/false);
    os << bytes;
    os.flush();
    std::error_code ec = os.error();
    os.clear_error();
    return ec;
  }
  std::string read() const {
    auto buffer = llvm::MemoryBuffer::getFile(path());
    return buffer ? (*buffer)->getBuffer().str() : "";
  }

private:
  int fd_;
};

} // namespace

llvm::Expected<std::string> renderSvg(llvm::StringRef dot, unsigned limitSeconds) {
  auto program = llvm::sys::findProgramByName("dot");
  if (!program)
    return makeError(
        "the program 'dot' is not on the PATH: install Graphviz (the package graphviz), or write a "
        ".dot file and draw it elsewhere");
  SharedBytes in, out, err;
  if (!in.isOpen() || !out.isOpen() || !err.isOpen())
    return makeError(ErrorKind::Device, "no memory to share with '{0}': {1}", *program,
                     std::strerror(errno));
  if (std::error_code ec = in.write(dot))
    return makeError(ErrorKind::Device, "no memory to share with '{0}': {1}", *program,
                     ec.message());

  const std::string from = in.path(), to = out.path(), talk = err.path();
  std::string problem;
  bool couldNotStart = false;
  int code = llvm::sys::ExecuteAndWait(
      *program, {"dot", "-Tsvg"}, /*Env=*/llvm::None,
      {llvm::StringRef(from), llvm::StringRef(to), llvm::StringRef(talk)}, limitSeconds,
      /*MemoryLimit=*/0, &problem, &couldNotStart);
  if (couldNotStart)
    return makeError(ErrorKind::Device, "cannot start '{0}': {1}", *program, problem);
  // -2 also means that a signal ended the program.
  if (code == -2 && llvm::StringRef(problem).startswith("Child timed out"))
    return makeError("'dot' did not lay out the graph within {0} seconds; write a .dot file and "
                     "give it more time "
                     "(dot -Tsvg G.dot -o G.svg), or draw a smaller graph",
                     limitSeconds);
  std::string picture = out.read();
  if (code == 0 && !picture.empty())
    return picture;
  std::string said = err.read();
  llvm::StringRef why = said.empty() ? llvm::StringRef(problem) : llvm::StringRef(said);
  return makeError("'dot' failed{0}{1}", why.empty() ? "" : ": ", why.split('\n').first);
}

} // namespace isthmus
