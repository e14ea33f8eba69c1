// Files in the safetensors format: eight bytes with the header's length, a JSON header, the
// tensors' bytes.
#pragma once

#include "ir/read_tensors.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>

namespace isthmus {

class Safetensors {
public:
  // Checks the whole header of the file: sizes, bounds, that each tensor has the bytes of its type,
  // and that the tensors follow one another without a hole or an overlap, to the end.
  static llvm::Expected<Safetensors> open(llvm::StringRef path);
  static llvm::Expected<Safetensors> parse(std::shared_ptr<const SourceFile> file,
                                           llvm::StringRef path);

  // Reads the tensor `name`. Tensors of one name share their bytes while one of them lives. An
  // error, with similar names, if the file has no such tensor, or if we do not have its element
  // type; also if the file was changed since it was opened.
  llvm::Expected<Tensor> find(llvm::StringRef name) const;

  struct Entry {
    std::string name, dtype; // as the file spells them
    Dims dims;
    uint64_t begin = 0, end = 0; // bytes after the header
  };
  // An error if the file records a digest of its tensors and they have another one: a file that was
  // damaged, or changed by a tool that keeps the metadata. Reads all tensors.
  llvm::Error checkDigest() const;
  llvm::ArrayRef<Entry> entries() const { return entries_; } // sorted by name
  const std::map<std::string, std::string> &metadata() const { return metadata_; }

private:
  Safetensors() = default;

  std::string path_;
  std::shared_ptr<const SourceFile> file_;
  mutable ReadTensors read_;
  uint64_t dataStart_ = 0;
  std::vector<Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// A hash of names, types and bytes, as sixteen hexadecimal digits. It detects a mix-up, not a
// forgery: the hash is fast, not cryptographic.
std::string digestOf(llvm::ArrayRef<NamedTensor> tensors);

// The key of the metadata under which files that we write hold the digest of their tensors.
constexpr const char *kDigestKey = "isthmus.digest";

// Prints a file of these tensors, with their digest. Tensors are sorted by element size, largest
// first, then by name, so that all are aligned. Names must be unique. `path` is for messages.
llvm::Error printSafetensors(llvm::raw_ostream &os, llvm::StringRef path,
                             llvm::ArrayRef<NamedTensor> tensors,
                             std::map<std::string, std::string> metadata = {});
// Writes such a file atomically.
llvm::Error writeSafetensors(llvm::StringRef path, llvm::ArrayRef<NamedTensor> tensors,
                             const std::map<std::string, std::string> &metadata = {});

} // namespace isthmus
