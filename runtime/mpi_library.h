// OpenMPI's library, loaded at run time. Nothing of it is needed to build Isthmus, or to run it in
// one process.
#pragma once

#include "llvm/Support/Error.h"
#include <cstddef>

namespace isthmus::mpi {

// As OpenMPI 4 and 5 have them (soname libmpi.so.40): handles are pointers to objects of theirs.
using Comm = struct Communicator *;
using Datatype = struct DatatypeObject *;
using Request = struct RequestObject *;
using ErrorHandler = struct ErrorHandlerObject *;
struct Status {
  int source, tag, error, cancelled;
  size_t count;
};
constexpr int kSuccess = 0, kMostText = 256; // MPI_MAX_PROCESSOR_NAME, MPI_MAX_ERROR_STRING
constexpr int kAnySource = -1;
constexpr int kFunneled = 1;                 // MPI_THREAD_FUNNELED: one thread makes all calls
constexpr const char *kLibrary = "libmpi.so.40";

struct Library {
  int (*initThread)(int *argc, char ***argv, int wanted, int *given);
  int (*finalize)();
  int (*abort)(Comm, int exitCode);
  int (*setErrorHandler)(Comm, ErrorHandler);
  int (*errorString)(int code, char *text, int *length);
  int (*processorName)(char *name, int *length);
  int (*commRank)(Comm, int *);
  int (*commSize)(Comm, int *);
  int (*isend)(const void *, int count, Datatype, int to, int tag, Comm, Request *);
  int (*irecv)(void *, int count, Datatype, int from, int tag, Comm, Request *);
  int (*ibcast)(void *, int count, Datatype, int root, Comm, Request *);
  int (*iallgather)(const void *, int, Datatype, void *, int, Datatype, Comm, Request *);
  int (*test)(Request *, int *isDone, Status *);
  int (*iprobe)(int from, int tag, Comm, int *isThere, Status *);
  int (*getCount)(const Status *, Datatype, int *count);
  Comm world;
  Datatype byte;
  ErrorHandler errorsReturn;
};

// Loads it, the first time. ISTHMUS_MPI_LIBRARY may name another file. Error: it is not there, or
// lacks something.
llvm::Expected<const Library *> load();

} // namespace isthmus::mpi
