#include "runtime/mpi_library.h"

#include "ir/diagnostics.h"
#include <cstdlib>
#include <dlfcn.h>

namespace isthmus::mpi {
namespace {

llvm::Error cannotLoad(llvm::StringRef file, llvm::StringRef why) {
  return addNote(
      makeError(ErrorKind::Device,
                "mpirun started this process, and OpenMPI's library {0} cannot be loaded: {1}; "
                "install Debian's openmpi-bin, which brings libopenmpi3, or run "
                "`tools/setup --mpi`",
                file, why),
      "without mpirun, one process runs all devices of a step on threads");
}

// Takes symbols of the library until one is missing.
class Symbols {
public:
  Symbols(void *handle) : handle_(handle) {}
  template <typename T> void operator()(T &to, const char *name) {
    void *found = dlsym(handle_, name);
    if (!found && missing_.empty())
      missing_ = name;
    to = reinterpret_cast<T>(found);
  }
  const std::string &missing() const { return missing_; }

private:
  void *handle_;
  std::string missing_;
};

llvm::Expected<Library> loadFile(const char *file) {
  // OpenMPI opens modules of its own, which look for its symbols among those that all may see. The
  // library stays loaded: it has threads.
  void *handle = dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    return cannotLoad(file, dlerror());
  Library m;
  Symbols take(handle);
  take(m.initThread, "MPI_Init_thread");
  take(m.finalize, "MPI_Finalize");
  take(m.abort, "MPI_Abort");
  take(m.setErrorHandler, "MPI_Comm_set_errhandler");
  take(m.errorString, "MPI_Error_string");
  take(m.processorName, "MPI_Get_processor_name");
  take(m.commRank, "MPI_Comm_rank");
  take(m.commSize, "MPI_Comm_size");
  take(m.isend, "MPI_Isend");
  take(m.irecv, "MPI_Irecv");
  take(m.ibcast, "MPI_Ibcast");
  take(m.iallgather, "MPI_Iallgather");
  take(m.test, "MPI_Test");
  take(m.iprobe, "MPI_Iprobe");
  take(m.getCount, "MPI_Get_count");
  take(m.world, "ompi_mpi_comm_world");
  take(m.byte, "ompi_mpi_byte");
  take(m.errorsReturn, "ompi_mpi_errors_return");
  if (!take.missing().empty())
    return cannotLoad(file, "it has no " + take.missing() + ", so it is not OpenMPI 4 or 5");
  return m;
}

} // namespace

llvm::Expected<const Library *> load() {
  static Library loaded;
  static bool isLoaded = false;
  if (isLoaded)
    return &loaded;
  const char *named = std::getenv("ISTHMUS_MPI_LIBRARY");
  auto library = loadFile(named && *named ? named : kLibrary);
  if (!library)
    return library.takeError();
  loaded = *library;
  isLoaded = true;
  return &loaded;
}

} // namespace isthmus::mpi
