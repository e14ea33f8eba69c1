#include "kernels/cuda/nccl.h"

#include "kernels/cuda/library_search.h"
#include <cstdlib>

namespace isthmus::cuda::nccl {
namespace {

constexpr int kOldest = 21400;

// The reason to reject the library, or nothing.
std::string bindAll(void *handle, Library &l) {
  const char *missing = nullptr;
  auto need = [&](const char *name, auto &function) {
    if (!bind(handle, name, function) && !missing)
      missing = name;
  };
  need("ncclGetVersion", l.getVersion);
  need("ncclGetErrorString", l.getErrorString);
  need("ncclGetUniqueId", l.getUniqueId);
  need("ncclCommInitRankConfig", l.commInitRankConfig);
  need("ncclCommGetAsyncError", l.commGetAsyncError);
  need("ncclCommAbort", l.commAbort);
  need("ncclSend", l.send);
  need("ncclRecv", l.receive);
  if (missing)
    return std::string("has no ") + missing;
  int version = 0;
  if (l.getVersion(&version) != kSuccess || version < kOldest)
    return "is version " + std::to_string(version) + ", and at least " + std::to_string(kOldest) +
           " is expected";
  return "";
}

struct Loaded {
  std::string name = "libnccl.so.2";
  std::vector<std::string> folders;
  FoundLibrary found;
  Library library = {};

  Loaded() {
    const char *given = std::getenv("ISTHMUS_NCCL_LIBRARY");
    if (given && *given)
      name = given;
    else
      folders = ourFolders();
    found = findLibrary(name, folders.empty() ? "." : ourFolder(), folders,
                        [&](void *handle) { return bindAll(handle, library); });
  }
};

const Loaded &loaded() {
  static const Loaded loaded;
  return loaded;
}

} // namespace

const Library *load() { return loaded().found.handle ? &loaded().library : nullptr; }

std::string libraryLine() { return searchLine(loaded().name, loaded().found, loaded().folders); }

} // namespace isthmus::cuda::nccl
