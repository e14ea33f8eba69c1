// A stand-in for NCCL between emulated GPUs (kernels/cuda/nccl.h), in one process or several: files
// in the folder that ISTHMUS_STAND_IN_FOLDER names, or in /tmp, carry the messages. It behaves as
// NCCL does where calls return at once: a call is busy until commGetAsyncError has been asked a few
// times, and only then on its stream.
//
// ISTHMUS_STAND_IN_FAULT=open|send makes such a call fail. ISTHMUS_STAND_IN_LOG names a file that
// gets one line for each communicator.

#include "kernels/cuda/emulated_stream.h"
#include "kernels/cuda/nccl.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using isthmus::cuda::EmulatedStream;
using isthmus::cuda::nccl::Config;
using isthmus::cuda::nccl::kInProgress;
using isthmus::cuda::nccl::kSuccess;
using isthmus::cuda::nccl::UniqueId;

namespace isthmus::cuda::nccl {

struct Communicator {
  std::string path; // of its files, without what tells them apart
  int rank = 0;
  bool isJoined = false;
  int busyFor = 0; // so many questions more
  EmulatedStream *stream = nullptr;
  std::function<bool()> call; // goes on the stream when it is no longer busy
  uint64_t numMessages = 0, numBytes = 0;
};

} // namespace isthmus::cuda::nccl

using isthmus::cuda::nccl::Communicator;

namespace {

constexpr int kInvalidArgument = 4, kInvalidUsage = 5, kRemoteError = 6;

bool fails(const char *what) {
  const char *fault = std::getenv("ISTHMUS_STAND_IN_FAULT");
  return fault && std::strcmp(fault, what) == 0;
}

std::string folder() {
  const char *given = std::getenv("ISTHMUS_STAND_IN_FOLDER");
  return given && *given ? given : "/tmp";
}

bool exists(const std::string &path) { return access(path.c_str(), F_OK) == 0; }

void writeWhole(const std::string &path, const void *data, size_t bytes) {
  const std::string part = path + ".part";
  std::ofstream file(part, std::ios::binary);
  file.write(static_cast<const char *>(data), std::streamsize(bytes));
  file.close();
  std::rename(part.c_str(), path.c_str());
}

// False if the message is not there yet. A message of other bytes ends the program.
bool readWhole(const std::string &path, void *data, size_t bytes) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0)
    return false;
  if (size_t(about.st_size) != bytes) {
    std::fprintf(stderr, "%s has %lld bytes, and %zu are received\n", path.c_str(),
                 static_cast<long long>(about.st_size), bytes);
    std::abort();
  }
  std::ifstream(path, std::ios::binary).read(static_cast<char *>(data), std::streamsize(bytes));
  unlink(path.c_str());
  return true;
}

int begin(Communicator &c, int type, int peer, size_t bytes, void *stream,
          std::function<bool(const std::string &path)> move) {
  if (c.busyFor > 0 || !c.isJoined || peer != 1 - c.rank)
    return kInvalidUsage;
  if (type != isthmus::cuda::nccl::kBytes)
    return kInvalidArgument;
  const std::string path = c.path + ".m" + std::to_string(c.numMessages++);
  c.numBytes += bytes;
  c.stream = static_cast<EmulatedStream *>(stream);
  c.call = [path, move] { return move(path); };
  c.busyFor = 2;
  return kInProgress;
}

} // namespace

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int ncclGetVersion(int *version) {
  *version = 23007;
  return kSuccess;
}
EXPORTED const char *ncclGetErrorString(int result) {
  return result == kRemoteError ? "the stand-in was told to fail" : "the stand-in was misused";
}
EXPORTED int ncclGetUniqueId(UniqueId *id) {
  std::random_device draws;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "nccl-%08x%08x", draws(), draws());
  return kSuccess;
}
EXPORTED int ncclCommInitRankConfig(Communicator **out, int ranks, UniqueId id, int rank,
                                    Config *config) {
  if (ranks != 2 || config->magic != 0xcafebeef || config->size != sizeof(Config) ||
      config->blocking != 0)
    return kInvalidArgument;
  *out = new Communicator{folder() + "/" + id.internal, rank};
  writeWhole((*out)->path + "." + std::to_string(rank), "", 0);
  (*out)->busyFor = 2;
  return kInProgress;
}
EXPORTED int ncclCommGetAsyncError(Communicator *c, int *result) {
  *result = kInProgress;
  if (!c->isJoined) {
    if (fails("open"))
      *result = kRemoteError;
    c->isJoined = exists(c->path + "." + std::to_string(1 - c->rank));
    return kSuccess;
  }
  if (c->busyFor > 0 && --c->busyFor > 0)
    return kSuccess;
  if (c->call)
    c->stream->pending.push_back(std::exchange(c->call, nullptr));
  *result = kSuccess;
  return kSuccess;
}
EXPORTED int ncclCommAbort(Communicator *c) {
  if (const char *log = std::getenv("ISTHMUS_STAND_IN_LOG")) {
    std::ofstream file(log, std::ios::app);
    file << "rank " + std::to_string(c->rank) + ": " + std::to_string(c->numMessages) +
                " messages of " + std::to_string(c->numBytes) + " bytes\n";
  }
  unlink((c->path + "." + std::to_string(c->rank)).c_str());
  delete c;
  return kSuccess;
}
EXPORTED int ncclSend(const void *data, size_t count, int type, int peer, Communicator *c,
                      void *stream) {
  if (fails("send"))
    return kRemoteError;
  return begin(*c, type, peer, count, stream, [=](const std::string &path) {
    writeWhole(path, data, count);
    return true;
  });
}
EXPORTED int ncclRecv(void *data, size_t count, int type, int peer, Communicator *c, void *stream) {
  return begin(*c, type, peer, count, stream,
               [=](const std::string &path) { return readWhole(path, data, count); });
}
