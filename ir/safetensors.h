// Tensors in a file, as the safetensors format has them: eight bytes of length, a JSON header, the
// tensors' bytes.
#pragma once

#include "ir/tensor.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <map>
#include <memory>

namespace isthmus {

class Safetensors {
public:
  // Maps the file and checks its whole header: sizes, bounds, that each tensor has the bytes of its
  // type, and that the tensors follow one another without a hole or an overlap, to the end.
  static llvm::Expected<Safetensors> open(llvm::StringRef path);
  static llvm::Expected<Safetensors> parse(std::shared_ptr<const llvm::MemoryBuffer> bytes,
                                           llvm::StringRef path);

  // A tensor keeps the mapped file alive and lies in it, unless it is not aligned to its element:
  // then it is copied. An error, with near names, if there is none, or if it is of an element type
  // that we do not have.
  llvm::Expected<Tensor> find(llvm::StringRef name) const;

  struct Entry {
    std::string name, dtype; // as the file spells them
    Dims dims;
    uint64_t begin = 0, end = 0; // bytes after the header
  };
  llvm::ArrayRef<Entry> entries() const { return entries_; } // by name
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

private:
  Safetensors() = default;

  std::string path_;
  std::shared_ptr<const llvm::MemoryBuffer> bytes_;
  uint64_t dataStart_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Names, types and bytes in sixteen hexadecimal digits. They tell a mix-up, not a forgery: the hash
// is quick.
std::string digestOf(llvm::ArrayRef<NamedTensor> tensors);

// Under this key of the metadata a file that we wrote has the digest of its tensors.
constexpr const char *kDigestKey = "isthmus.digest";

// A file of these tensors, with their digest. Wider elements first, then by name, so that every
// tensor is aligned; names are unique. `path` is for messages.
llvm::Error printSafetensors(llvm::raw_ostream &os, llvm::StringRef path,
                             llvm::ArrayRef<NamedTensor> tensors,
                             std::map<std::string, std::string> metadata = {});
// Written whole or not at all.
llvm::Error writeSafetensors(llvm::StringRef path, llvm::ArrayRef<NamedTensor> tensors,
                             const std::map<std::string, std::string> &metadata = {});

} // namespace isthmus
