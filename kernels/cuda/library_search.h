// Where NVIDIA's libraries lie on people's machines: beside us, where the loader looks, in a CUDA
// toolkit, and in Python's nvidia-* wheels.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace isthmus::cuda {

// What is asked of the system; a test gives one of its own.
struct Surroundings {
  std::string ourFolder;                                    // of the device's library
  std::function<std::string(const char *name)> environment; // empty where it is not set
  std::string root;                                         // before absolute paths; empty
};

// Folders to look in, in this order; all exist.
std::vector<std::string> libraryFolders(const Surroundings &s);

struct FoundLibrary {
  void *handle = nullptr; // of dlopen; null where none was found
  std::string path;
  std::vector<std::string> refused; // libraries that were found and not taken, with reasons
};

// The first that loads and that `refusal` has nothing against: it gives a reason, or none. First
// asked for is the name alone, as the loader's configuration and LD_LIBRARY_PATH have it, but for
// a library in our own folder.
FoundLibrary findLibrary(const std::string &name, const std::string &ourFolder,
                         const std::vector<std::string> &folders,
                         const std::function<std::string(void *handle)> &refusal);

// Files in the folder of the library `path` whose names begin so.
std::vector<std::string> librariesBeside(const std::string &path, const std::string &prefix);

} // namespace isthmus::cuda
