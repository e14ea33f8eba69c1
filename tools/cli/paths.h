// The files of one command. Before anything is written, no output may be an input or another
// output. Files are compared by identity, also through links, and not by name.
#pragma once

#include "ir/diagnostics.h"
#include <string>
#include <vector>

namespace isthmus {

class CommandPaths {
public:
  // `what` names the file in messages: an option, "MODEL". An empty path is ignored; "-" is
  // standard input, or output.
  void reads(const std::string &what, const std::string &path);
  void writes(const std::string &what, const std::string &path);
  // A folder, which is made if necessary.
  void writesFolder(const std::string &what, const std::string &path);

  // Errors: two files are the same (exit 2), or an output cannot be written because of an existing
  // file.
  llvm::Error check() const;

private:
  struct File {
    std::string what, path;
    std::string identity; // empty for devices such as /dev/null, which store nothing
    bool isRegular;       // or will be once written
    bool isFolder = false;
  };
  static File describe(const std::string &what, const std::string &path, int stream);
  llvm::Error checkAreOwn() const;
  bool isInNewFolder(const std::string &path) const;

  std::vector<File> inputs_, outputs_;
  std::vector<std::string> folders_; // of the outputs
};

} // namespace isthmus
