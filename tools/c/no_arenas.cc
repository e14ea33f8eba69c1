// Replaces two parts of protobuf's static library, which Debian compiles for programs and not for
// shared libraries (BUILD): its arenas, because of their thread-local cache, and the stream to
// which it logs. No message of ours lies in an arena, so none is ever made.

#include "ir/check.h"
#include <cstdio>
#include <google/protobuf/arena.h>
#include <google/protobuf/stubs/logging.h>

[[noreturn]] static void noArena() {
  ISTHMUS_UNREACHABLE("there are no arenas of protobuf in this library");
}

namespace google::protobuf {

void *Arena::AllocateAlignedWithHook(size_t, const std::type_info *) { noArena(); }
void *Arena::AllocateAlignedWithHookForArray(size_t, const std::type_info *) { noArena(); }
std::pair<void *, internal::SerialArena::CleanupNode *>
Arena::AllocateAlignedWithCleanup(size_t, const std::type_info *) {
  noArena();
}

namespace internal {
ThreadSafeArena::~ThreadSafeArena() { noArena(); }
void ThreadSafeArena::AddCleanup(void *, void (*)(void *)) { noArena(); }
uint64_t ThreadSafeArena::SpaceAllocated() const { noArena(); }
__thread ThreadSafeArena::ThreadCache ThreadSafeArena::thread_cache_ = {};
} // namespace internal

} // namespace google::protobuf

extern "C" {
extern __attribute__((visibility("hidden"))) FILE *isthmus_protobuf_stderr;
FILE *isthmus_protobuf_stderr = stderr;
}

// Nothing is logged either: the library prints nothing.
static const bool isSilent = (google::protobuf::SetLogHandler(nullptr), true);
