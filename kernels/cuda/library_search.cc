#include "kernels/cuda/library_search.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>

namespace isthmus::cuda {
namespace {

namespace fs = std::filesystem;

bool isFolder(const fs::path &p) {
  std::error_code error;
  return fs::is_directory(p, error);
}
bool isFile(const fs::path &p) {
  std::error_code error;
  return fs::is_regular_file(p, error);
}

// Subfolders of `p` whose names begin with `prefix`, in descending order of names: the latest
// versions come first.
std::vector<fs::path> foldersIn(const fs::path &p, const std::string &prefix = "") {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator i(p, error), end; !error && i != end; i.increment(error))
    if (i->path().filename().string().rfind(prefix, 0) == 0 && isFolder(i->path()))
      found.push_back(i->path());
  std::sort(found.rbegin(), found.rend());
  return found;
}

// The path of a loaded library.
std::string pathOf(void *handle) {
  link_map *map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !map)
    return "an unknown place";
  return map->l_name;
}

class Search {
public:
  explicit Search(const Surroundings &s) : s_(s) {}

  std::vector<std::string> folders() {
    add(s_.ourFolder);
    add(s_.ourFolder + "/../lib");
    addToolkits();
    for (const fs::path &prefix : pythonPrefixes())
      addPrefix(prefix);
    return found_;
  }

private:
  fs::path absolute(const std::string &path) const { return s_.root + path; }

  void add(const fs::path &folder) {
    std::string text = folder.lexically_normal().string();
    if (!folder.empty() && isFolder(folder) &&
        std::find(found_.begin(), found_.end(), text) == found_.end())
      found_.push_back(text);
  }

  void addToolkits() {
    std::vector<fs::path> homes;
    for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
      if (std::string home = s_.environment(name); !home.empty())
        homes.push_back(home);
    homes.push_back(absolute("/usr/local/cuda"));
    for (const fs::path &home : foldersIn(absolute("/usr/local"), "cuda-"))
      homes.push_back(home);
    for (const fs::path &home : homes)
      for (const char *lib : {"lib64", "lib", "targets/x86_64-linux/lib"})
        add(home / lib);
  }

  // Prefixes of the active environments and of each `python3` on PATH. The `python3` of a virtual
  // environment is a link to another installation's, so links are followed one by one.
  std::vector<fs::path> pythonPrefixes() const {
    std::vector<fs::path> prefixes;
    for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
      if (std::string prefix = s_.environment(name); !prefix.empty())
        prefixes.push_back(prefix);
    std::string path = s_.environment("PATH");
    for (size_t begin = 0; begin <= path.size();) {
      size_t end = std::min(path.find(':', begin), path.size());
      if (end > begin)
        addLinks(fs::path(path.substr(begin, end - begin)) / "python3", prefixes);
      begin = end + 1;
    }
    if (std::string home = s_.environment("HOME"); !home.empty())
      prefixes.push_back(fs::path(home) / ".local");
    prefixes.push_back(absolute("/usr"));
    prefixes.push_back(absolute("/usr/local"));
    return prefixes;
  }
  static void addLinks(fs::path program, std::vector<fs::path> &prefixes) {
    constexpr int kMostLinks = 16;
    std::error_code error;
    for (int i = 0; i < kMostLinks && fs::exists(program, error); ++i) {
      prefixes.push_back(program.parent_path().parent_path());
      fs::path target = fs::read_symlink(program, error);
      if (error)
        return;
      program = program.parent_path() / target;
    }
  }

  // Conda's libraries are in the prefix itself; those of wheels are in the packages of `nvidia`.
  void addPrefix(const fs::path &prefix) {
    std::vector<fs::path> pythons = foldersIn(prefix / "lib", "python3");
    for (const fs::path &python : pythons)
      for (const char *packages : {"site-packages", "dist-packages"})
        for (const fs::path &package : foldersIn(python / packages / "nvidia"))
          add(package / "lib");
    if (prefix == s_.environment("CONDA_PREFIX"))
      add(prefix / "lib");
  }

  const Surroundings &s_;
  std::vector<std::string> found_;
};

} // namespace

std::vector<std::string> libraryFolders(const Surroundings &s) { return Search(s).folders(); }

const std::string &ourFolder() {
  static const std::string folder = [] {
    Dl_info info;
    if (!dladdr(reinterpret_cast<const void *>(&ourFolder), &info) || !info.dli_fname)
      return std::string(".");
    const std::string path = info.dli_fname;
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
  }();
  return folder;
}

const std::vector<std::string> &ourFolders() {
  static const std::vector<std::string> all =
      libraryFolders({ourFolder(),
                      [](const char *name) {
                        const char *value = std::getenv(name);
                        return std::string(value ? value : "");
                      },
                      ""});
  return all;
}

FoundLibrary findLibrary(const std::string &name, const std::string &ourFolder,
                         const std::vector<std::string> &folders,
                         const std::function<std::string(void *handle)> &refusal) {
  FoundLibrary result;
  auto attempt = [&](const std::string &path) {
    void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      if (path != name)
        result.refused.push_back(dlerror());
      return false;
    }
    std::string loaded = pathOf(handle), why = refusal(handle);
    if (!why.empty()) {
      result.refused.push_back(loaded + " " + why);
      dlclose(handle);
      return false;
    }
    result.handle = handle;
    result.path = loaded;
    return true;
  };
  if (isFile(ourFolder + "/" + name) && attempt(ourFolder + "/" + name))
    return result;
  if (attempt(name))
    return result;
  for (const std::string &folder : folders)
    if (std::string path = folder + "/" + name; isFile(path) && attempt(path))
      return result;
  return result;
}

std::string searchLine(const std::string &name, const FoundLibrary &found,
                       const std::vector<std::string> &folders) {
  if (found.handle)
    return name + ": " + found.path + "\n";
  std::string text = name + ": not found";
  for (const std::string &why : found.refused)
    text += "; " + why;
  text += "; looked for on the loader's path";
  for (const std::string &folder : folders)
    text += ", in " + folder;
  return text + "\n";
}

std::vector<std::string> librariesBeside(const std::string &path, const std::string &prefix) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator i(fs::path(path).parent_path(), error), end; !error && i != end;
       i.increment(error))
    if (i->path().filename().string().rfind(prefix, 0) == 0)
      found.push_back(i->path().string());
  return found;
}

} // namespace isthmus::cuda
