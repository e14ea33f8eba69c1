// Arrays in one .npz file, as numpy.savez and numpy.savez_compressed write them: a zip archive of
// .npy files.
#pragma once

#include "ir/tensor.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>

namespace isthmus {

class Npz {
public:
  // Reads the archive's list of files and no array. Errors name the path, and say what was
  // expected.
  static llvm::Expected<Npz> open(const std::string &path);
  static llvm::Expected<Npz> parse(std::shared_ptr<const llvm::MemoryBuffer> bytes,
                                   const std::string &path);

  std::vector<llvm::StringRef> names() const; // without .npy, sorted
  bool has(llvm::StringRef name) const { return members_.count(name.str()) > 0; }
  // The array of this name, which must exist. An array that is not compressed lies in the mapped
  // file and keeps it alive. An error if its checksum does not match.
  llvm::Expected<Tensor> find(llvm::StringRef name) const;
  const std::string &path() const { return path_; }

private:
  // An entry of the archive's list: how its bytes are packed, and the place of its header.
  struct Member {
    unsigned method, flags;
    uint32_t crc;
    uint64_t packedBytes, bytes, header;
  };
  llvm::Error readDirectory();
  llvm::Error readMember(llvm::StringRef &directory);
  llvm::Expected<llvm::StringRef> packed(const Member &m) const;
  llvm::Expected<std::shared_ptr<const llvm::MemoryBuffer>> contents(const Member &m) const;

  std::string path_;
  std::shared_ptr<const llvm::MemoryBuffer> bytes_;
  std::map<std::string, Member> members_;
};

} // namespace isthmus
