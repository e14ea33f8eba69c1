#include "runtime/host_memory.h"

#include "ir/system_limits.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <vector>

namespace isthmus {
namespace {

constexpr int64_t kPage = 4096;

// What this process has allocated and not given back: sizes in bytes, by address.
struct Allocations {
  std::mutex mutex;
  std::map<char *, int64_t> sizes;

  // The bytes that were never written and so take no memory yet.
  int64_t unwritten() const {
    int64_t pages = 0;
    std::vector<unsigned char> isPresent;
    for (const auto &[address, size] : sizes) {
      isPresent.resize(size_t(size / kPage));
      if (mincore(address, size_t(size), isPresent.data()) == 0)
        for (unsigned char present : isPresent)
          pages += !(present & 1);
    }
    return pages * kPage;
  }
};

Allocations &allocations() {
  static Allocations &all = *new Allocations; // threads may end after main
  return all;
}

} // namespace

llvm::Expected<char *> allocateHostMemory(int64_t bytes, llvm::StringRef who) {
  Allocations &all = allocations();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const AvailableMemory available = availableMemory(all.unwritten());
  const int64_t size = (bytes / kPage + 1) * kPage;
  auto *p = bytes > available.bytes
                ? nullptr
                : static_cast<char *>(std::aligned_alloc(size_t(kPage), size_t(size)));
  if (!p)
    return makeError(ErrorKind::OutOfMemory, "{0}: out of memory: {1:F1} MiB asked for, {2}", who,
                     bytes / 1048576.0, available.str());
  all.sizes[p] = size;
  return p;
}

void releaseHostMemory(char *bytes) {
  Allocations &all = allocations();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.sizes.erase(bytes);
  }
  std::free(bytes);
}

} // namespace isthmus
