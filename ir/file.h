// Files, read whole and written whole or not at all.
#pragma once

#include "ir/diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>
#include <optional>

namespace isthmus {

// The bytes of a file or a pipe, mapped where it is large; of standard input if `path` is "-". An
// error names the path and says why.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readFile(llvm::StringRef path);

// The same for what must be a regular file: a pipe or a device may block, or never end.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readRegularFile(llvm::StringRef path);

// /dev/null, /dev/zero and their like, which keep nothing that is written to them.
bool isMemoryDevice(llvm::StringRef path);

// A file that a model names, which was read from `folder`: a regular one that lies in the folder or
// below, links followed, unless it may lie anywhere.
enum class Outside : bool { Refused, Allowed };
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readFileBeside(llvm::StringRef folder, llvm::StringRef name, Outside outside);

using FileWriter = llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)>;

// Lets `write` fill a temporary file in the folder of `path`, which then takes the place of `path`
// at once. Where anything fails, an error of `write` included, the temporary file is removed and
// `path` is as it was. What is no regular file (a pipe, /dev/null) is written as it is, and so is
// standard output, by the name "-" or any other.
llvm::Error writeFileAtomically(llvm::StringRef path, FileWriter write);
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef bytes);

// Files that belong together: all are filled before the first takes its place. They take their
// places in this order, and no other process that writes here comes between.
struct NewFile {
  std::string path;
  FileWriter write;
};
llvm::Error writeFilesTogether(llvm::ArrayRef<NewFile> files);

// An error if `path` cannot be written for what is there already: it is a folder, or lies in none.
llvm::Error checkCanBeWritten(llvm::StringRef path);

// `file` as seen from the folder that holds `path`: itself if absolute, or if `path` is "-" or in
// no folder.
std::string pathBeside(llvm::StringRef path, llvm::StringRef file);

// The folder that holds `path`; the current one for "-".
std::string folderOf(llvm::StringRef path);

// `path` as called from `folder`, if it lies there or below when links are followed. Neither has to
// exist.
std::optional<std::string> pathWithin(llvm::StringRef folder, llvm::StringRef path);

// What makes two paths one file: device and inode, or for one that does not exist its place with
// links followed.
std::string fileIdentity(llvm::StringRef path);

} // namespace isthmus
