#include "ir/file.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace isthmus {
namespace {

llvm::Error cannot(const char *what, llvm::StringRef path, std::error_code ec) {
  return makeError("cannot {0} '{1}': {2}", what, path, ec.message());
}
std::error_code lastError() { return std::error_code(errno, std::generic_category()); }

// Writes through a stream on `fd`, which stays open.
llvm::Error writeTo(int fd, llvm::StringRef path,
                    llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write) {
  llvm::raw_fd_ostream os(fd, /*shouldClose=*/false);
  // A stream that is destroyed with an error it was not asked about ends the process.
  auto ask = llvm::make_scope_exit([&] { os.clear_error(); });
  if (llvm::Error e = write(os))
    return e;
  os.flush();
  if (os.has_error())
    return cannot("write", path, os.error());
  return llvm::Error::success();
}

// What a new file may be read and written by: as the umask says, or as the file that it replaces.
mode_t modeFor(const std::string &path) {
  struct stat old;
  if (::stat(path.c_str(), &old) == 0)
    return old.st_mode & 07777;
  mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// A link is followed, so that what it names is replaced and not the link.
std::string resolved(llvm::StringRef path) {
  llvm::SmallString<256> real;
  if (llvm::sys::fs::is_symlink_file(path) && !llvm::sys::fs::real_path(path, real))
    return real.str().str();
  return path.str();
}

} // namespace

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readFile(llvm::StringRef path) {
  auto buffer = path == "-" ? llvm::MemoryBuffer::getSTDIN()
                            : llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                                          /*RequiresNullTerminator=*/false);
  if (!buffer)
    return cannot("read", path == "-" ? "standard input" : path, buffer.getError());
  return std::move(*buffer);
}

llvm::Error writeFileAtomically(llvm::StringRef path,
                                llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)> write) {
  if (path == "-")
    return writeTo(STDOUT_FILENO, "standard output", write);
  std::string target = resolved(path);
  llvm::sys::fs::file_status status;
  bool exists = !llvm::sys::fs::status(target, status) && llvm::sys::fs::exists(status);
  if (exists && llvm::sys::fs::is_directory(status))
    return cannot("write", path, std::make_error_code(std::errc::is_a_directory));
  if (exists && !llvm::sys::fs::is_regular_file(status)) {
    int fd = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
      return cannot("write", path, lastError());
    auto close = llvm::make_scope_exit([&] { ::close(fd); });
    return writeTo(fd, path, write);
  }

  std::string temporary = target + ".XXXXXX.tmp";
  int fd = ::mkostemps(temporary.data(), /*suffixlen=*/4, O_CLOEXEC);
  if (fd < 0)
    return cannot("write", path, lastError());
  // Ctrl-C leaves no temporary file behind either.
  llvm::sys::RemoveFileOnSignal(temporary);
  auto forget = llvm::make_scope_exit([&] { llvm::sys::DontRemoveFileOnSignal(temporary); });
  auto remove = llvm::make_scope_exit([&] { ::unlink(temporary.c_str()); });
  {
    auto close = llvm::make_scope_exit([&] { ::close(fd); });
    if (llvm::Error e = writeTo(fd, path, write))
      return e;
    // Its bytes are on the disk before its name is: a machine that stops here leaves the old file.
    if (::fchmod(fd, modeFor(target)) != 0 || ::fsync(fd) != 0)
      return cannot("write", path, lastError());
  }
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return cannot("write", path, lastError());
  remove.release();
  return llvm::Error::success();
}

llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef bytes) {
  return writeFileAtomically(path, [&](llvm::raw_pwrite_stream &os) {
    os << bytes;
    return llvm::Error::success();
  });
}

std::string pathBeside(llvm::StringRef path, llvm::StringRef file) {
  llvm::StringRef folder = path == "-" ? "" : llvm::sys::path::parent_path(path);
  if (folder.empty() || llvm::sys::path::is_absolute(file))
    return file.str();
  llvm::SmallString<256> joined(folder);
  llvm::sys::path::append(joined, file);
  return joined.str().str();
}

} // namespace isthmus
