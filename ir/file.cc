#include "ir/file.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace isthmus {
namespace {

using Buffer = std::unique_ptr<llvm::MemoryBuffer>;

bool isLeftToAnother = false; // leaveFilesToAnotherProcess

llvm::Error cannot(const char *what, llvm::StringRef path, std::error_code ec) {
  return makeError("cannot {0} '{1}': {2}", what, path, ec.message());
}
std::error_code lastError() { return std::error_code(errno, std::generic_category()); }

// --- Where files lie

// The canonical form of `path`: absolute, with links resolved as far as the path exists.
std::filesystem::path placeOf(llvm::StringRef path, std::error_code &ec) {
  auto whole = std::filesystem::absolute(path.str(), ec);
  return ec ? whole : std::filesystem::weakly_canonical(whole, ec);
}

// The target of a dangling link: the file that writing through the link would create.
std::string pointedTo(const std::string &link) {
  constexpr int kMostLinks = 40;
  std::filesystem::path at = link;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code ec;
    std::filesystem::path next = std::filesystem::read_symlink(at, ec);
    if (ec)
      return at.string();
    at = at.parent_path() / next; // `next` alone if it is absolute
  }
  return link; // a circular link
}

bool climbs(llvm::StringRef path) {
  namespace p = llvm::sys::path;
  return std::any_of(p::begin(path), p::end(path), [](llvm::StringRef s) { return s == ".."; });
}

// --- Writing

// Writes through a stream on `fd`, which stays open.
llvm::Error writeTo(int fd, llvm::StringRef path, FileWriter write) {
  llvm::raw_fd_ostream os(fd, /*shouldClose=*/false);
  // A stream whose error was never read ends the process in its destructor.
  auto ask = llvm::make_scope_exit([&] { os.clear_error(); });
  if (llvm::Error e = write(os))
    return e;
  os.flush();
  if (os.has_error())
    return cannot("write", path, os.error());
  return llvm::Error::success();
}

// The permissions of a new file: those of the file that it replaces, or else the default under the
// umask.
mode_t modeFor(const std::string &path) {
  struct stat old;
  if (::stat(path.c_str(), &old) == 0)
    return old.st_mode & 07777;
  mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

// Follows a link, so that its target is replaced or created, and not the link.
std::string resolved(llvm::StringRef path) {
  if (!llvm::sys::fs::is_symlink_file(path))
    return path.str();
  if (!llvm::sys::fs::exists(path))
    return pointedTo(path.str());
  llvm::SmallString<256> real; // fails for a pipe, to which /dev/fd/3 may be a link
  return llvm::sys::fs::real_path(path, real) ? path.str() : real.str().str();
}

// The descriptor of standard output or standard error if `path`, such as /dev/stdout, is the same
// file, or else -1. Such a file must not be replaced, because other output that the process writes
// to it would be lost.
int standardStream(const std::string &path) {
  struct stat file, open;
  if (path == "-")
    return STDOUT_FILENO;
  if (::stat(path.c_str(), &file) != 0)
    return -1;
  for (int fd : {STDOUT_FILENO, STDERR_FILENO})
    if (::fstat(fd, &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino)
      return fd;
  return -1;
}

// One new file: filled in a temporary file beside the old one, then renamed to its path.
class Staged {
public:
  explicit Staged(const NewFile &file) : file_(file), target_(resolved(file.path)) {}
  Staged(const Staged &) = delete;
  ~Staged() {
    if (fd_ >= 0)
      ::close(fd_);
    if (temporary_.empty())
      return;
    ::unlink(temporary_.c_str());
    llvm::sys::DontRemoveFileOnSignal(temporary_);
  }

  // A target that is not a regular file cannot be replaced: takePlace writes it directly.
  llvm::Error fill() {
    llvm::sys::fs::file_status status;
    std::error_code ec = llvm::sys::fs::status(target_, status);
    if (ec == std::errc::too_many_symbolic_link_levels)
      return cannot("write", file_.path, ec);
    bool exists = !ec && llvm::sys::fs::exists(status);
    if (exists && llvm::sys::fs::is_directory(status))
      return cannot("write", file_.path, std::make_error_code(std::errc::is_a_directory));
    isDirect_ =
        standardStream(file_.path) >= 0 || (exists && !llvm::sys::fs::is_regular_file(status));
    return isDirect_ ? llvm::Error::success() : fillTemporary();
  }

  llvm::Error takePlace() {
    if (isDirect_)
      return writeDirectly();
    if (temporary_.empty())
      if (llvm::Error e = giveName())
        return e;
    if (::rename(temporary_.c_str(), target_.c_str()) != 0)
      return cannot("write", file_.path, lastError());
    llvm::sys::DontRemoveFileOnSignal(temporary_);
    temporary_.clear();
    return llvm::Error::success();
  }

  std::string folder() const { return isDirect_ ? "" : folderOf(target_); }

private:
  llvm::Error fillTemporary() {
    // The file has no name until it takes its place, if the file system supports that: a killed
    // process leaves no file behind, except between the naming and the renaming.
    if (llvm::sys::fs::exists("/proc/self/fd"))
      fd_ = ::open(folderOf(target_).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd_ < 0)
      if (llvm::Error e = makeNamed())
        return e;
    if (llvm::Error e = writeTo(fd_, file_.path, file_.write))
      return e;
    // Sync the bytes before the rename: if the machine stops here, the old file remains.
    if (::fchmod(fd_, modeFor(target_)) != 0 || ::fsync(fd_) != 0)
      return cannot("write", file_.path, lastError());
    return llvm::Error::success();
  }

  llvm::Error makeNamed() {
    return withNewName([&](const char *name) {
      fd_ = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      return fd_ >= 0;
    });
  }
  llvm::Error giveName() {
    const std::string self = "/proc/self/fd/" + std::to_string(fd_);
    return withNewName([&](const char *name) {
      return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    });
  }

  // Makes the temporary file under a new name. A signal at any time leaves no file behind: the name
  // is registered for removal before the file exists.
  llvm::Error withNewName(llvm::function_ref<bool(const char *name)> make) {
    for (;;) {
      uint64_t number = 0;
      if (::getrandom(&number, sizeof number, 0) != sizeof number)
        return cannot("write", file_.path, lastError());
      temporary_ = pathBeside(target_, ".isthmus-" + llvm::utohexstr(number, true) + ".tmp");
      llvm::sys::RemoveFileOnSignal(temporary_);
      if (make(temporary_.c_str()))
        return llvm::Error::success();
      std::error_code ec = lastError();
      llvm::sys::DontRemoveFileOnSignal(temporary_);
      temporary_.clear();
      if (ec != std::errc::file_exists)
        return cannot("write", file_.path, ec);
    }
  }

  llvm::Error writeDirectly() {
    const char *name = file_.path == "-" ? "standard output" : file_.path.c_str();
    if (int fd = standardStream(file_.path); fd >= 0)
      return writeTo(fd, name, file_.write);
    int fd = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0)
      return cannot("write", file_.path, lastError());
    auto close = llvm::make_scope_exit([&] { ::close(fd); });
    return writeTo(fd, name, file_.write);
  }

  const NewFile &file_;
  std::string target_, temporary_;
  int fd_ = -1;
  bool isDirect_ = false;
};

// While this object lives, no other process of ours renames files in the folder. The lock is best
// effort: our parent process may hold such a lock itself, and some file systems have none.
class FolderLock {
public:
  explicit FolderLock(const std::string &folder)
      : fd_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int kTries = 100, kMicroseconds = 10'000;
    for (int i = 0; fd_ >= 0 && i < kTries && ::flock(fd_, LOCK_EX | LOCK_NB) != 0; ++i)
      ::usleep(kMicroseconds);
  }
  FolderLock(const FolderLock &) = delete;
  ~FolderLock() {
    if (fd_ >= 0)
      ::close(fd_);
  }

private:
  int fd_;
};

} // namespace

llvm::Expected<Buffer> readFile(llvm::StringRef path) {
  if (path != "-" && isMemoryDevice(path)) // some never end
    return makeError("cannot read '{0}': expected a file or a pipe, found a device", path);
  if (path != "-" && llvm::sys::fs::is_regular_file(path))
    return readRegularFile(path);
  auto buffer = path == "-" ? llvm::MemoryBuffer::getSTDIN()
                            : llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                                          /*RequiresNullTerminator=*/false,
                                                          /*IsVolatile=*/true); // is not mapped
  if (!buffer)
    return cannot("read", path == "-" ? "standard input" : path, buffer.getError());
  return std::move(*buffer);
}

bool isMemoryDevice(llvm::StringRef path) {
  constexpr unsigned kMemory = 1; // Linux's major number of memory devices
  struct stat status;
  return ::stat(path.str().c_str(), &status) == 0 && S_ISCHR(status.st_mode) &&
         major(status.st_rdev) == kMemory;
}

llvm::Expected<Buffer> readRegularFile(llvm::StringRef path) {
  auto file = SourceFile::open(path);
  if (!file)
    return file.takeError();
  return (*file)->readAll();
}

llvm::Expected<std::shared_ptr<const SourceFile>>
openFileBeside(llvm::StringRef folder, llvm::StringRef name, Outside outside) {
  if (name.empty() || name.contains('\0'))
    return makeError("expects the name of a file beside the model, got '{0}'",
                     name.split('\0').first);
  const Remedy advice = {"allow-outside", "", "let it lie elsewhere"};
  bool isNamedOutside = llvm::sys::path::is_absolute(name) || climbs(name);
  if (isNamedOutside && outside == Outside::Refused)
    return addRemedy(makeError("expects a file beside the model, got '{0}'", name), advice);
  std::string path = folder == "." ? name.str() : pathBeside(folder.str() + "/", name);
  // The file may be a link, but must not lead out of the folder.
  if (outside == Outside::Refused && !pathWithin(folder, path))
    return addRemedy(
        makeError("expects a file beside the model, and '{0}' is a link to one elsewhere", name),
        advice);
  return SourceFile::open(path);
}

void leaveFilesToAnotherProcess() { isLeftToAnother = true; }

llvm::Error makeFolder(llvm::StringRef path) {
  if (isLeftToAnother)
    return llvm::Error::success();
  if (std::error_code ec = llvm::sys::fs::create_directories(path))
    return cannot("make the folder", path, ec);
  return llvm::Error::success();
}

llvm::Error writeFilesTogether(llvm::ArrayRef<NewFile> files) {
  if (isLeftToAnother)
    return llvm::Error::success();
  std::vector<std::unique_ptr<Staged>> staged;
  for (const NewFile &file : files) {
    staged.push_back(std::make_unique<Staged>(file));
    if (llvm::Error e = staged.back()->fill())
      return e;
  }
  std::optional<FolderLock> lock;
  if (files.size() > 1 && !staged.front()->folder().empty())
    lock.emplace(staged.front()->folder());
  for (const auto &each : staged)
    if (llvm::Error e = each->takePlace())
      return e;
  return llvm::Error::success();
}

llvm::Error writeFileAtomically(llvm::StringRef path, FileWriter write) {
  return writeFilesTogether(NewFile{path.str(), write});
}

llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef bytes) {
  return writeFileAtomically(path, [&](llvm::raw_pwrite_stream &os) {
    os << bytes;
    return llvm::Error::success();
  });
}

llvm::Error checkCanBeWritten(llvm::StringRef path) {
  if (isLeftToAnother || standardStream(path.str()) >= 0)
    return llvm::Error::success();
  std::string target = resolved(path);
  struct stat status;
  if (::stat(target.c_str(), &status) == 0)
    return S_ISDIR(status.st_mode)
               ? cannot("write", path, std::make_error_code(std::errc::is_a_directory))
               : llvm::Error::success();
  if (errno == ELOOP)
    return cannot("write", path, lastError());
  if (::stat((folderOf(target) + "/.").c_str(), &status) != 0)
    return cannot("write", path, lastError());
  return llvm::Error::success();
}

std::string pathBeside(llvm::StringRef path, llvm::StringRef file) {
  llvm::StringRef folder = path == "-" ? "" : llvm::sys::path::parent_path(path);
  if (folder.empty() || llvm::sys::path::is_absolute(file))
    return file.str();
  llvm::SmallString<256> joined(folder);
  llvm::sys::path::append(joined, file);
  return joined.str().str();
}

std::string folderOf(llvm::StringRef path) {
  llvm::StringRef folder = path == "-" ? "" : llvm::sys::path::parent_path(path);
  return folder.empty() ? "." : folder.str();
}

std::optional<std::string> pathWithin(llvm::StringRef folder, llvm::StringRef path) {
  std::error_code ec;
  std::filesystem::path base = placeOf(folder, ec);
  std::filesystem::path place = ec ? base : placeOf(path, ec);
  if (ec)
    return std::nullopt;
  std::filesystem::path rest = place.lexically_relative(base);
  if (rest.empty() || *rest.begin() == "..")
    return std::nullopt;
  return rest.string();
}

std::string fileIdentity(llvm::StringRef path) {
  struct stat status;
  if (::stat(path.str().c_str(), &status) == 0)
    return llvm::formatv("{0}:{1}", status.st_dev, status.st_ino).str();
  std::error_code ec;
  std::filesystem::path place = placeOf(pointedTo(path.str()), ec);
  return ec ? path.str() : place.string();
}

} // namespace isthmus
