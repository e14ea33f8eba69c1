// NCCL (libnccl.so.2, version 2.14 or later), which moves messages between GPUs. It is loaded on
// first use, and its header is not needed: these are the declarations of its interface that are
// used (NCCL User Guide, "Point-to-point communication" and "Fault Tolerance").
#pragma once

#include <cstddef>
#include <string>

namespace isthmus::cuda::nccl {

struct Communicator; // opaque: ncclComm

struct UniqueId { // passed by value, as NCCL has it
  char internal[128];
};

constexpr int kSuccess = 0, kInProgress = 7; // ncclResult_t
constexpr int kBytes = 1;                    // ncclDataType_t: ncclUint8

// Of version 2.14. Later versions accept it, and take their defaults for what they have added.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21400;
  int blocking = 0; // calls return at once, and commGetAsyncError tells when they have ended
};

struct Library {
  int (*getVersion)(int *version); // 22805 is 2.28.5
  const char *(*getErrorString)(int result);
  int (*getUniqueId)(UniqueId *);
  int (*commInitRankConfig)(Communicator **, int ranks, UniqueId, int rank, Config *);
  int (*commGetAsyncError)(Communicator *, int *result);
  int (*commAbort)(Communicator *);
  int (*send)(const void *, size_t count, int type, int peer, Communicator *, void *stream);
  int (*receive)(void *, size_t count, int type, int peer, Communicator *, void *stream);
};

// Loads it, the first time: the file that ISTHMUS_NCCL_LIBRARY names, or where library_search.h
// looks. Null if it is not there or is too old.
const Library *load();

// One line: its path, or why it was not found.
std::string libraryLine();

} // namespace isthmus::cuda::nccl
