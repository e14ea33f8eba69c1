// A file that is read part by part, into memory of the reader's own.
//
// Files are not mapped: a mapping shows what another program writes into the file later, and a file
// that is truncated would end the process by SIGBUS.
#pragma once

#include "ir/tensor.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <sys/stat.h>

namespace isthmus {

class SourceFile {
public:
  // Opens a regular file and keeps it open. An error names the path and the cause.
  static llvm::Expected<std::shared_ptr<const SourceFile>> open(llvm::StringRef path);
  // The same interface to bytes in memory, such as those of a pipe. `path` is for messages.
  static std::shared_ptr<const SourceFile> of(std::unique_ptr<llvm::MemoryBuffer> bytes,
                                              llvm::StringRef path);
  ~SourceFile();
  SourceFile(const SourceFile &) = delete;

  const std::string &path() const { return path_; }
  uint64_t size() const { return size_; }

  // Copies the bytes from `offset` on, which must lie in the file. An error if the file was written
  // or truncated since it was opened. (A file that was replaced by another one is still the old
  // file here.)
  llvm::Error read(uint64_t offset, llvm::MutableArrayRef<char> to) const;
  // The whole file.
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readAll() const;
  // A tensor of these bytes, in memory of its own. A file may use any byte for true; the tensor
  // does not.
  llvm::Expected<Tensor> readTensor(const Type &type, uint64_t offset) const;

private:
  SourceFile(int fd, llvm::StringRef path) : fd_(fd), path_(path) {}
  llvm::Error checkIsUnchanged() const;
  llvm::Error copy(uint64_t offset, llvm::MutableArrayRef<char> to) const;
  llvm::Error readData(uint64_t offset, llvm::MutableArrayRef<char> to) const;

  int fd_; // -1: the bytes are in memory
  std::string path_;
  uint64_t size_ = 0, storedBytes_ = 0; // without the holes of a sparse file
  struct timespec modified_ = {};
  std::unique_ptr<llvm::MemoryBuffer> bytes_;
};

} // namespace isthmus
