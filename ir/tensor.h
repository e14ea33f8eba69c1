// Bytes of a tensor on the host, shared and immutable.
#pragma once

#include "ir/type.h"
#include <memory>
#include <new>

namespace isthmus {

struct Tensor {
  Type type;
  std::shared_ptr<const void>
      owner; // keeps `data` alive: a buffer or a mapped file; null if there is no data
  const char *data = nullptr;

  explicit operator bool() const { return data != nullptr; }
  int64_t bytes() const { return type.bytes(); }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(data); }

  // Makes a zeroed tensor and calls `fill` with its bytes to write into.
  template <typename Fill> static Tensor make(const Type &type, Fill fill) {
    // Aligned for vector loads; one byte at least, so that `data` is never null.
    constexpr std::align_val_t kAlign{64};
    size_t size = static_cast<size_t>(type.bytes());
    std::shared_ptr<char> p(static_cast<char *>(::operator new(size + 1, kAlign)),
                            [](char *bytes) { ::operator delete(bytes, kAlign); });
    __builtin_memset(p.get(), 0, size);
    fill(p.get());
    return Tensor{type, p, p.get()};
  }
};

} // namespace isthmus
