// Finds NVIDIA's libraries on users' machines: beside our own library, on the loader's path, in a
// CUDA toolkit, and in Python's nvidia-* wheels.
#pragma once

#include <dlfcn.h>
#include <functional>
#include <string>
#include <vector>

namespace isthmus::cuda {

// The system's properties that the search reads; a test supplies its own.
struct Surroundings {
  std::string ourFolder;                                    // the folder of the device's library
  std::function<std::string(const char *name)> environment; // empty if the variable is not set
  std::string root; // prepended to absolute paths; empty outside tests
};

// The folders to search, in order; all exist.
std::vector<std::string> libraryFolders(const Surroundings &s);

// The folder of the library that this code is in, and the folders to search on this machine.
const std::string &ourFolder();
const std::vector<std::string> &ourFolders();

struct FoundLibrary {
  // From dlopen; null if no library was found.
  void *handle = nullptr;
  std::string path;
  std::vector<std::string> refused; // libraries that were found but rejected, with reasons
};

// The first library that loads and that `refusal` accepts; `refusal` returns a reason to reject it,
// or an empty string. The search begins in our own folder, then tries the bare name, which the
// loader resolves by its configuration and LD_LIBRARY_PATH, then `folders`.
FoundLibrary findLibrary(const std::string &name, const std::string &ourFolder,
                         const std::vector<std::string> &folders,
                         const std::function<std::string(void *handle)> &refusal);

// Whether the library has a function of that name, which is then set.
template <typename F> bool bind(void *handle, const char *name, F &function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

// What the search for `name` came to, as one line for users.
std::string searchLine(const std::string &name, const FoundLibrary &found,
                       const std::vector<std::string> &folders);

// The files beside the library `path` whose names begin with `prefix`.
std::vector<std::string> librariesBeside(const std::string &path, const std::string &prefix);

} // namespace isthmus::cuda
