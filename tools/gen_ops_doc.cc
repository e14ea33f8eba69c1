// bazel run //tools:gen_ops_doc: writes docs/ops.md. With an argument, writes there ("-": standard
// output).

#include "ir/file.h"
#include "tools/ops_reference.h"
#include <cstdlib>

int main(int argc, char **argv) {
  const char *root = std::getenv("BUILD_WORKSPACE_DIRECTORY"); // set by `bazel run`
  std::string path = argc > 1 ? argv[1] : (root ? std::string(root) + "/" : "") + "docs/ops.md";
  if (llvm::Error e = isthmus::writeFileAtomically(path, isthmus::opsReference())) {
    llvm::errs() << llvm::toString(std::move(e)) << "\n";
    return 1;
  }
  return 0;
}
