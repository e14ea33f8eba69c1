// Reads whole files, and writes files atomically.
#pragma once

#include "ir/diagnostics.h"
#include "ir/source_file.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>
#include <optional>

namespace isthmus {

// Reads a file or a pipe, or standard input if `path` is "-", into memory. An error names the path
// and the cause; it is one too if another program writes the file in the meantime.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readFile(llvm::StringRef path);

// The same, but `path` must be a regular file: a pipe or a device may block, or never end.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> readRegularFile(llvm::StringRef path);

// Whether `path` is a memory device, such as /dev/null or /dev/zero, which does not store the bytes
// written to it.
bool isMemoryDevice(llvm::StringRef path);

// Opens the regular file `name` that a model in `folder` refers to. With Outside::Refused it must
// lie in the folder or below, after links are followed.
enum class Outside : bool { Refused, Allowed };
llvm::Expected<std::shared_ptr<const SourceFile>>
openFileBeside(llvm::StringRef folder, llvm::StringRef name, Outside outside);

using FileWriter = llvm::function_ref<llvm::Error(llvm::raw_pwrite_stream &)>;

// Lets `write` fill a temporary file in the folder of `path`, then renames it to `path`. On any
// failure, an error of `write` included, the temporary file is removed and `path` is unchanged. A
// target that is not a regular file (a pipe, /dev/null) is written directly, and so is standard
// output, by the name "-" or any other.
llvm::Error writeFileAtomically(llvm::StringRef path, FileWriter write);
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef bytes);

// Writes files that belong together: all are filled before the first is renamed to its path. They
// are renamed in this order. A lock on the first file's folder keeps other processes of ours from
// interleaving, where the lock can be taken.
struct NewFile {
  std::string path;
  FileWriter write;
};
llvm::Error writeFilesTogether(llvm::ArrayRef<NewFile> files);

// Makes the folder and those above it, unless they are there.
llvm::Error makeFolder(llvm::StringRef path);

// From now on this process writes no files and makes no folders, and all functions of this page that
// would do so succeed: of several processes that run one command together, one writes its files.
void leaveFilesToAnotherProcess();

// An error if `path` is a folder, lies in no existing folder, or is a circular link.
llvm::Error checkCanBeWritten(llvm::StringRef path);

// `file`, which is relative to the folder that holds `path`, as seen from the current folder.
// `file` itself if it is absolute, or if `path` is "-" or names no folder.
std::string pathBeside(llvm::StringRef path, llvm::StringRef file);

// The folder that holds `path`; the current one for "-".
std::string folderOf(llvm::StringRef path);

// `path` relative to `folder`, or none if it does not lie there or below, after links are followed.
// Neither has to exist.
std::optional<std::string> pathWithin(llvm::StringRef folder, llvm::StringRef path);

// A key that is equal for two paths of the same file: device and inode, or the path with links
// followed if the file does not exist.
std::string fileIdentity(llvm::StringRef path);

} // namespace isthmus
