// The files of one command. Before anything is written, no output may be an input or another
// output: by what they are, through links too, and not by how they are called.
#pragma once

#include "ir/diagnostics.h"
#include <string>
#include <vector>

namespace isthmus {

class CommandPaths {
public:
  // `what` is how a message calls it: an option, "MODEL". An empty path is none; "-" is standard
  // input, or output.
  void reads(const std::string &what, const std::string &path);
  void writes(const std::string &what, const std::string &path);
  // A folder, which is made if it is not there.
  void writesFolder(const std::string &what, const std::string &path);

  // Errors: files that are one (exit 2), and outputs that cannot be written for what is there.
  llvm::Error check() const;

private:
  struct File {
    std::string what, path;
    std::string identity; // empty for /dev/null and its like, which keep nothing
    bool isRegular;       // or will be
    bool isFolder = false;
  };
  static File describe(const std::string &what, const std::string &path, int stream);
  llvm::Error checkAreOwn() const;
  bool isInNewFolder(const std::string &path) const;

  std::vector<File> inputs_, outputs_;
  std::vector<std::string> folders_; // of the outputs
};

} // namespace isthmus
