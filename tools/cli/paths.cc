#include "tools/cli/paths.h"

#include "ir/file.h"
#include "tools/cli/exit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FileSystem.h"
#include <sys/stat.h>
#include <unistd.h>

namespace isthmus {

CommandPaths::File CommandPaths::describe(const std::string &what, const std::string &path,
                                          int stream) {
  struct stat s;
  if ((path == "-" ? ::fstat(stream, &s) : ::stat(path.c_str(), &s)) != 0)
    return {what, path, fileIdentity(path), /*isRegular=*/path != "-"};
  std::string identity =
      path != "-" && isMemoryDevice(path) ? "" : llvm::formatv("{0}:{1}", s.st_dev, s.st_ino).str();
  return {what, path, identity, bool(S_ISREG(s.st_mode))};
}

void CommandPaths::reads(const std::string &what, const std::string &path) {
  if (!path.empty())
    inputs_.push_back(describe(what, path, STDIN_FILENO));
}

void CommandPaths::writes(const std::string &what, const std::string &path) {
  if (!path.empty())
    outputs_.push_back(describe(what, path, STDOUT_FILENO));
}

void CommandPaths::writesFolder(const std::string &what, const std::string &path) {
  writes(what, path);
  if (path.empty())
    return;
  outputs_.back().isFolder = true;
  folders_.push_back(path);
}

bool CommandPaths::isInNewFolder(const std::string &path) const {
  return llvm::any_of(folders_, [&](const std::string &folder) {
    return folderOf(path) == folder && !llvm::sys::fs::exists(folder);
  });
}

llvm::Error CommandPaths::checkAreOwn() const {
  llvm::StringMap<const File *> read, written;
  for (const File &in : inputs_)
    if (in.isRegular) // input from a pipe or a terminal cannot be overwritten
      read[in.identity] = &in;
  for (const File &out : outputs_) {
    if (out.identity.empty())
      continue;
    if (const File *in = read.lookup(out.identity))
      return usageError(
          "{0} would write '{1}', which is also read, as {2} ('{3}'); give it another name",
          out.what, out.path, in->what, in->path);
    auto [other, isNew] = written.try_emplace(out.identity, &out);
    if (!isNew)
      return usageError("{0} ('{1}') and {2} ('{3}') are one file; give each its own",
                        other->second->what, other->second->path, out.what, out.path);
  }
  return llvm::Error::success();
}

llvm::Error CommandPaths::check() const {
  if (llvm::Error e = checkAreOwn())
    return e;
  for (const File &out : outputs_)
    if (!out.isFolder && !isInNewFolder(out.path))
      if (llvm::Error e = checkCanBeWritten(out.path))
        return e;
  return llvm::Error::success();
}

} // namespace isthmus
