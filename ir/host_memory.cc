#include "ir/host_memory.h"

#include <cstdlib>
#include <cstring>
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
  int64_t total = 0;

  // What is left for a request of `bytes`. Which pages were written is only looked up where it
  // matters.
  AvailableMemory available(int64_t bytes) const {
    const AvailableMemory most = availableMemory();
    return bytes <= most.bytes - total ? most : availableMemory(unwritten());
  }

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

std::string shortage(int64_t bytes, const AvailableMemory &available) {
  return llvm::formatv("out of memory: {0:F1} MiB asked for, {1}", double(bytes) / 1048576.0,
                       available.str());
}

} // namespace

AvailableMemory availableHostMemory(int64_t bytes) {
  Allocations &all = allocations();
  const std::lock_guard<std::mutex> lock(all.mutex);
  return all.available(bytes);
}

llvm::Error checkHostMemory(int64_t bytes) {
  constexpr int64_t kLarge = 16 << 20;
  if (bytes < kLarge)
    return llvm::Error::success();
  const AvailableMemory available = availableHostMemory(bytes);
  if (bytes <= available.bytes)
    return llvm::Error::success();
  return makeError(ErrorKind::OutOfMemory, "{0}", shortage(bytes, available));
}

llvm::Expected<char *> allocateHostMemory(int64_t bytes, llvm::StringRef who) {
  Allocations &all = allocations();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const AvailableMemory available = all.available(bytes);
  const int64_t size = (bytes / kPage + 1) * kPage;
  auto *p = bytes > available.bytes
                ? nullptr
                : static_cast<char *>(std::aligned_alloc(size_t(kPage), size_t(size)));
  if (!p)
    return makeError(ErrorKind::OutOfMemory, "{0}: {1}", who, shortage(bytes, available));
  all.sizes[p] = size;
  all.total += size;
  return p;
}

void releaseHostMemory(char *bytes) {
  Allocations &all = allocations();
  {
    const std::lock_guard<std::mutex> lock(all.mutex);
    if (auto found = all.sizes.find(bytes); found != all.sizes.end()) {
      all.total -= found->second;
      all.sizes.erase(found);
    }
  }
  std::free(bytes);
}

std::shared_ptr<char> zeroedHostMemory(size_t bytes) {
  constexpr std::align_val_t kAlign{64};
  if (llvm::Error e = checkHostMemory(int64_t(bytes)))
    throw OutOfHostMemory(plainMessage(std::move(e)));
  std::shared_ptr<char> p(static_cast<char *>(::operator new(bytes + 1, kAlign)),
                          [](char *p) { ::operator delete(p, kAlign); });
  std::memset(p.get(), 0, bytes);
  return p;
}

} // namespace isthmus
