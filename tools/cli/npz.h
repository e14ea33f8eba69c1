// Arrays in one .npz file, as numpy.savez and numpy.savez_compressed write them: a zip archive of
// .npy files.
#pragma once

#include "ir/source_file.h"
#include "llvm/Support/Error.h"
#include <map>

namespace isthmus {

class Npz {
public:
  // Reads the archive's list of files and no array. Errors name the path, and say what was
  // expected.
  static llvm::Expected<Npz> open(const std::string &path);

  std::vector<llvm::StringRef> names() const; // without .npy, sorted
  bool has(llvm::StringRef name) const { return members_.count(name.str()) > 0; }
  // Reads the array of this name, which must exist. An error if its checksum does not match, or if
  // the file was changed since it was opened.
  llvm::Expected<Tensor> find(llvm::StringRef name) const;
  const std::string &path() const { return file_->path(); }

private:
  // An entry of the archive's list: how its bytes are packed, and the place of its header.
  struct Member {
    unsigned method, flags;
    uint32_t crc;
    uint64_t packedBytes, bytes, header;
  };
  llvm::Error readDirectory();
  llvm::Error readMember(uint64_t &at);
  llvm::Expected<std::shared_ptr<const llvm::MemoryBuffer>> contents(const Member &m) const;

  std::shared_ptr<const SourceFile> file_;
  std::map<std::string, Member> members_;
};

} // namespace isthmus
