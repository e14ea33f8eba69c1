#include "ir/source_file.h"

#include "ir/diagnostics.h"
#include "ir/host_memory.h"
#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace isthmus {
namespace {

// Zeroed memory that begins on a page. Pages that are not written take no memory, so the holes of a
// sparse file stay holes.
class Pages {
public:
  explicit Pages(size_t size)
      : size_(size + 1), // one byte at least
        bytes_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Pages(const Pages &) = delete;
  ~Pages() {
    if (*this)
      ::munmap(bytes_, size_);
  }
  explicit operator bool() const { return bytes_ != MAP_FAILED; }
  char *data() const { return static_cast<char *>(bytes_); }

private:
  size_t size_;
  void *bytes_;
};

class PagesBuffer : public llvm::MemoryBuffer {
public:
  PagesBuffer(std::unique_ptr<Pages> pages, size_t size) : pages_(std::move(pages)) {
    init(pages_->data(), pages_->data() + size, /*RequiresNullTerminator=*/false);
  }
  BufferKind getBufferKind() const override { return MemoryBuffer_Malloc; }

private:
  std::unique_ptr<Pages> pages_;
};

llvm::Error cannotRead(llvm::StringRef path, int error) {
  return makeError("cannot read '{0}': {1}", path,
                   std::error_code(error, std::generic_category()).message());
}

constexpr uint64_t kSmall = 64 << 20;

} // namespace

llvm::Expected<std::shared_ptr<const SourceFile>> SourceFile::open(llvm::StringRef path) {
  // Open before checking the type, so that both refer to the same file. O_NONBLOCK: opening a pipe
  // must not block.
  const int fd = ::open(path.str().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return cannotRead(path, errno);
  std::shared_ptr<SourceFile> file(new SourceFile(fd, path));
  struct stat now;
  if (::fstat(fd, &now) != 0)
    return cannotRead(path, errno);
  if (!S_ISREG(now.st_mode))
    return makeError("cannot read '{0}': expected a regular file, found a {1}", path,
                     S_ISDIR(now.st_mode) ? "directory" : "pipe, socket or device");
  file->size_ = uint64_t(now.st_size);
  file->storedBytes_ = uint64_t(now.st_blocks) * 512;
  file->modified_ = now.st_mtim;
  return file;
}

std::shared_ptr<const SourceFile> SourceFile::of(std::unique_ptr<llvm::MemoryBuffer> bytes,
                                                 llvm::StringRef path) {
  std::shared_ptr<SourceFile> file(new SourceFile(-1, path));
  file->size_ = file->storedBytes_ = bytes->getBufferSize();
  file->bytes_ = std::move(bytes);
  return file;
}

SourceFile::~SourceFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

llvm::Error SourceFile::checkIsUnchanged() const {
  if (fd_ < 0)
    return llvm::Error::success();
  struct stat now;
  if (::fstat(fd_, &now) != 0)
    return cannotRead(path_, errno);
  if (uint64_t(now.st_size) == size_ && now.st_mtim.tv_sec == modified_.tv_sec &&
      now.st_mtim.tv_nsec == modified_.tv_nsec)
    return llvm::Error::success();
  return makeError("'{0}' was changed by another program while it was read: expected the {1} bytes "
                   "that it had when it was opened, found {2}; read it again when it is complete",
                   path_, size_,
                   uint64_t(now.st_size) == size_ ? "a later modification"
                                                  : std::to_string(now.st_size));
}

// Reads without a check for changes.
llvm::Error SourceFile::copy(uint64_t offset, llvm::MutableArrayRef<char> to) const {
  assert(offset <= size_ && to.size() <= size_ - offset && "a part of the file");
  if (fd_ < 0) {
    if (!to.empty())
      std::memcpy(to.data(), bytes_->getBufferStart() + offset, to.size());
    return llvm::Error::success();
  }
  for (size_t done = 0; done < to.size();) {
    const ssize_t n = ::pread(fd_, to.data() + done, to.size() - done, off_t(offset + done));
    if (n < 0 && errno != EINTR)
      return cannotRead(path_, errno);
    if (n == 0) { // the end came early
      if (llvm::Error e = checkIsUnchanged())
        return e;
      return makeError("cannot read '{0}': it ends at byte {1} of {2}", path_, offset + done,
                       size_);
    }
    done += size_t(std::max<ssize_t>(n, 0));
  }
  return llvm::Error::success();
}

llvm::Error SourceFile::read(uint64_t offset, llvm::MutableArrayRef<char> to) const {
  if (llvm::Error e = copy(offset, to))
    return e;
  return checkIsUnchanged();
}

// Reads into zeroed memory, without the holes of a sparse file.
llvm::Error SourceFile::readData(uint64_t offset, llvm::MutableArrayRef<char> to) const {
  const uint64_t end = offset + to.size();
  for (uint64_t at = offset; at < end;) {
    off_t data = off_t(at), hole = off_t(end);
    if (fd_ >= 0) {
      data = ::lseek(fd_, off_t(at), SEEK_DATA);
      if (data < 0 && errno == ENXIO) // a hole to the end
        break;
      hole = data < 0 ? off_t(end) : ::lseek(fd_, data, SEEK_HOLE);
      if (data < 0 || hole < 0) // the file system knows of no holes
        data = off_t(at), hole = off_t(end);
    }
    const uint64_t first = std::min(uint64_t(data), end), last = std::min(uint64_t(hole), end);
    if (llvm::Error e = copy(first, to.slice(first - offset, last - first)))
      return e;
    at = last;
  }
  return checkIsUnchanged();
}

// Memory for `bytes` of the file. Linux overcommits memory and would end the process later.
static llvm::Expected<std::unique_ptr<Pages>> pagesFor(const SourceFile &file, uint64_t bytes,
                                                       uint64_t needed) {
  auto pages = std::make_unique<Pages>(size_t(bytes));
  if (*pages && needed < kSmall)
    return pages;
  const AvailableMemory available = availableHostMemory(int64_t(needed));
  if (*pages && needed <= uint64_t(available.bytes))
    return pages;
  return makeError(ErrorKind::OutOfMemory,
                   "out of memory: {0} bytes of '{1}' are to be read, and {2}",
                   std::min(bytes, needed), file.path(), available.str());
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> SourceFile::readAll() const {
  auto pages = pagesFor(*this, size_, std::min(size_, storedBytes_));
  if (!pages)
    return pages.takeError();
  if (llvm::Error e = readData(0, {(*pages)->data(), size_t(size_)}))
    return e;
  return std::make_unique<PagesBuffer>(std::move(*pages), size_t(size_));
}

llvm::Expected<Tensor> SourceFile::readTensor(const Type &type, uint64_t offset) const {
  const auto size = uint64_t(type.bytes());
  auto pages = pagesFor(*this, size, std::min(size, storedBytes_));
  if (!pages)
    return pages.takeError();
  char *bytes = (*pages)->data();
  if (llvm::Error e = readData(offset, {bytes, size_t(size)}))
    return e;
  if (type.dtype == DType::Bool) // a C++ bool must be 0 or 1
    std::transform(bytes, bytes + size, bytes, [](char c) { return char(c != 0); });
  return Tensor{type, std::shared_ptr<Pages>(std::move(*pages)), bytes};
}

} // namespace isthmus
