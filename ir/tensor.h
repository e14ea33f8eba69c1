// Bytes of a tensor on the host, shared and immutable.
#pragma once

#include "ir/host_memory.h"
#include "ir/type.h"

namespace isthmus {

struct Tensor {
  Type type;
  std::shared_ptr<const void>
      owner; // keeps `data` alive: a buffer or a mapped file; null if there is no data
  const char *data = nullptr;

  explicit operator bool() const { return data != nullptr; }
  int64_t bytes() const { return type.bytes(); }
  template <typename T> const T *as() const { return reinterpret_cast<const T *>(data); }

  // Makes a zeroed tensor and calls `fill` with its bytes to write into. Throws as
  // zeroedHostMemory.
  template <typename Fill> static Tensor make(const Type &type, Fill fill) {
    const std::shared_ptr<char> p = zeroedHostMemory(size_t(type.bytes())); // (never null)
    fill(p.get());
    return Tensor{type, p, p.get()};
  }
};

} // namespace isthmus
