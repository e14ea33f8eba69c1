#include "kernels/cuda/nvidia.h"

#include "kernels/cuda/library_search.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>

namespace isthmus::cuda {
namespace {

constexpr int kToolkit = CUDART_VERSION / 1000;

// The reason to reject a library made for another toolkit: it would load that toolkit's libraries.
std::string refusalOfToolkit(size_t version) {
  if (int(version / 1000) == kToolkit)
    return "";
  return "is for CUDA " + std::to_string(version / 1000) + ", and this is " +
         std::to_string(kToolkit);
}

#define ISTHMUS_BIND(name)                                                                         \
  if (!bind(handle, #name, table.name))                                                            \
    return std::string("has no ") + #name;

std::string bindAll(void *handle, Cudnn &table) {
  ISTHMUS_CUDNN_FUNCTIONS(ISTHMUS_BIND)
  if (table.cudnnGetVersion() / 10000 != CUDNN_MAJOR)
    return "is cuDNN " + std::to_string(table.cudnnGetVersion()) + ", and " +
           std::to_string(CUDNN_MAJOR) + " is expected";
  return refusalOfToolkit(table.cudnnGetCudartVersion());
}
std::string bindAll(void *handle, CublasLt &table) {
  ISTHMUS_CUBLASLT_FUNCTIONS(ISTHMUS_BIND)
  return refusalOfToolkit(table.cublasLtGetCudartVersion());
}
#undef ISTHMUS_BIND

template <typename Table> struct Loaded {
  std::string name;
  FoundLibrary found;
  Table table;

  explicit Loaded(const std::string &library) : name(library) {
    found = findLibrary(name, ourFolder(), ourFolders(),
                        [&](void *handle) { return bindAll(handle, table); });
  }
  const Table *orNull() const { return found.handle ? &table : nullptr; }
};

struct Nothing {};
std::string bindAll(void *, Nothing &) { return ""; }

const Loaded<CublasLt> &loadedCublasLt() {
  static const Loaded<CublasLt> loaded("libcublasLt.so." + std::to_string(kToolkit));
  return loaded;
}
// cuDNN compiles some kernels at run time. It loads the compiler (NVRTC) by name, as it does
// cuBLASLt, and NVRTC loads its builtins by name. Libraries that are already loaded are found even
// if they are not on the loader's path.
const Loaded<Nothing> &loadedCompiler() {
  static const Loaded<Nothing> loaded = [] {
    Loaded<Nothing> compiler("libnvrtc.so." + std::to_string(kToolkit));
    if (compiler.found.handle)
      for (const std::string &beside :
           librariesBeside(compiler.found.path, "libnvrtc-builtins.so."))
        dlopen(beside.c_str(), RTLD_NOW | RTLD_LOCAL);
    return compiler;
  }();
  return loaded;
}
const Loaded<Cudnn> &loadedCudnn() {
  loadedCublasLt();
  loadedCompiler();
  static const Loaded<Cudnn> loaded("libcudnn.so." + std::to_string(CUDNN_MAJOR));
  return loaded;
}

} // namespace

const CublasLt *cublasLt() { return loadedCublasLt().orNull(); }
const Cudnn *cudnn() { return loadedCudnn().orNull(); }

template <typename Table> static std::string lineOf(const Loaded<Table> &library) {
  return searchLine(library.name, library.found, ourFolders());
}

std::string nvidiaLibraries() {
  return lineOf(loadedCublasLt()) + lineOf(loadedCudnn()) + lineOf(loadedCompiler());
}

} // namespace isthmus::cuda
